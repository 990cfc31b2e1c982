"""The state of an interval, for every combination of evidence about it."""

from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from trainfeed.core.intervals import Schedule
from trainfeed.look.status import STATES
from trainfeed.look.status.states import (
    Absent,
    Expected,
    FoundAttempt,
    Gone,
    Published,
    judge_absent,
    judge_published,
)
from trainfeed.versions import Skip, Unpublished

END = datetime(2026, 1, 2, tzinfo=UTC)
SETTLE, WAIT = timedelta(hours=1), timedelta(days=2)
LOGS = Expected(Schedule("@daily", END - timedelta(days=1)), SETTLE, WAIT, "fail")
TOPIC = Expected(LOGS.schedule, SETTLE, patience=timedelta(hours=1))
UNKNOWN = Expected(None)

# Where the clock stands: before the end, settling, within the wait for logs, behind all waits.
CLOCKS = {
    "runs": END - timedelta(hours=1),
    "settles": END + timedelta(minutes=30),
    "waits": END + timedelta(hours=20),
    "due": END + timedelta(days=5),
}
EARLY, LATE = "2026-01-02T03:00:00Z", "2026-01-02T04:00:00Z"


def attempt(life, began):
    return None if life is None else FoundAttempt(life, began, f"check is {life}")


def ended(outcome, since):
    if outcome is None:
        return None
    return Unpublished("2026-01-01", since, "check", None, outcome, "GateError", "too few")


# Marks that were written before both times of an attempt, between them, and behind both.
GONE = [
    Gone(state, f"g0001.{state}", int((END + timedelta(hours=hours)).timestamp()))
    for state in ("retired", "withdrawn", "removed")
    for hours in (2, 3.5, 5)
]

ABSENT = list(
    product(
        [None, "damaged"],
        [None, Skip("2026-01-01", "no folder", EARLY, None)],
        [None, "at work", "elsewhere", "quiet", "killed"],
        [EARLY, LATE],
        [None, "failed", "retry", "waiting"],
        [EARLY, LATE],
        CLOCKS,
        [LOGS, TOPIC, UNKNOWN],
        [None, *GONE],
        [(), ("0123456789abcdef-g0001",)],
    )
)


WITHOUT_VERSION = {
    "building", "skipped", "retired", "withdrawn", "removed", "waiting", "failed", "missing"
}  # fmt: skip


def seconds(text):
    return int(datetime.fromisoformat(text).timestamp())


def by_the_table(case):
    """Return the state by the table of docs/operations/status.md, read from the top."""
    damage, skip, life, began, outcome, since, clock, rules, gone = case
    is_alive = life in {"at work", "elsewhere"}
    if gone is not None:
        # What was before the mark says nothing about the interval any more.
        life = life if seconds(began) >= gone.since else None
        outcome = outcome if seconds(since) >= gone.since else None
    is_early = clock == "runs" or (clock == "settles" and rules is not UNKNOWN)
    is_killed_last = life in {"quiet", "killed"} and (outcome is None or began > since)
    is_waited_for = rules is LOGS and clock != "due"
    lines = [
        (damage, "damaged"),
        (is_alive, "building"),
        (skip and getattr(gone, "state", None) != "retired", "skipped"),
        (not gone and is_early, "waiting"),
        (is_killed_last or outcome in {"failed", "retry"}, "failed"),
        (outcome == "waiting" and (is_waited_for or is_early or rules is UNKNOWN), "waiting"),
        (not gone and is_waited_for, "waiting"),
        # A topic is waited for an hour after it has settled, as its rules say.
        (outcome == "waiting" and rules is TOPIC, "failed"),
        (gone, getattr(gone, "state", None)),
        (True, "missing"),
    ]
    return next(state for holds, state in lines if holds)


def test_every_combination_of_evidence_without_a_version_has_the_state_of_the_table():
    seen = set()
    for damage, skip, life, began, outcome, since, clock, rules, gone, plans in ABSENT:
        evidence = Absent(
            END, damage, gone, skip, attempt(life, began), ended(outcome, since), plans
        )
        judged = judge_absent(evidence, rules, CLOCKS[clock])
        case = (damage, skip, life, began, outcome, since, clock, rules, gone)
        assert judged.state == by_the_table(case), case
        # Only a bare interval needs no reason.
        assert judged.reason or not (gone or plans or outcome or life or skip or damage)
        seen.add(judged.state)
    assert seen == {*WITHOUT_VERSION, "damaged"}


def test_every_combination_of_facts_about_a_version_has_the_state_of_the_table():
    seen = set()
    for damage, unread, lost, late, empty, record in product(
        [None, "ChecksumError: …"],
        [(), ("kafka:clicks/0 offsets [3, 5) are in no interval",)],
        [(), ("kafka:clicks/0 offsets [0, 3) are lost: retention",)],
        [None, (7, "2026-01-03")],
        [None, "kafka:clicks/0: log_end"],
        [None, ended("failed", LATE)],
    ):
        judged = judge_published(Published(5, damage, unread, lost, late, empty, record))
        table = [(damage, "damaged"), (unread, "unread"), (lost, "gap"), (late, "late")]
        table.append((empty, "empty"))
        assert judged.state == next((state for holds, state in table if holds), "published")
        assert ("GateError: too few" in judged.reason) == (record is not None and damage is None)
        assert judged.since == (None if damage else 7 if judged.state == "late" else 5)
        seen.add(judged.state)
    assert seen == set(STATES) - WITHOUT_VERSION - {"accepted"}


def test_an_interval_says_since_when_it_is_missing_and_what_the_next_build_decides():
    judged = judge_absent(Absent(END), LOGS, CLOCKS["due"])
    assert datetime.fromtimestamp(judged.since, UTC) == END + SETTLE + WAIT
    assert judged.reason == (
        "the wait for its source ended at 2026-01-04T01:00:00Z; the next build decides by"
        " 'missing: fail'"
    )


@pytest.mark.parametrize("clock", ["waits", "due"])
def test_a_wait_that_no_run_ended_is_not_called_a_wait_for_ever(clock):
    judged = judge_absent(Absent(END, ended=ended("waiting", EARLY)), TOPIC, CLOCKS[clock])
    assert judged.state == "failed"
    assert "the wait ended at 2026-01-02T02:00:00Z; check: GateError: too few" in judged.reason

"""The state of an interval: a function of the evidence about it, and of nothing else.

Each interval has exactly one state. The first line of this table that holds decides
(docs/authors/adr/0034-status-from-the-folder.md):

========= ==========================================================================================
state     evidence
========= ==========================================================================================
damaged   the manifest of the version for readers, or the marker of a decision, cannot be used
unread    a version beside which no interval has read offsets, or two have: nobody decided it
gap       a version that lacks records: a recorded loss that a person accepted
late      a version, and a later version counted records that are stamped in this interval
empty     a version without a sample, and the reason
published a version
building  no version; an attempt at a plan of the interval is at work
retired   retention or a person retired the interval, and no later attempt at another ended
skipped   the decision to leave the interval out
accepted  the decision to go without a hole between two versions
withdrawn a person withdrew the newest generation, and no later attempt at another ended
removed   the files of the newest generation were deleted, likewise
waiting   the interval is not over or not settled; or its source is waited for
failed    the last attempt ended with an error, or was killed
missing   none of these: nothing has built the interval
========= ==========================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from trainfeed.dataset import Skip, Unpublished
from trainfeed.intervals import format_time, parse_time
from trainfeed.status._attempts import FoundAttempt
from trainfeed.status._expected import Expected
from trainfeed.status._gone import Gone

__all__ = ["STATES", "Absent", "Judgement", "Published", "State", "judge_absent", "judge_published"]

State: TypeAlias = Literal[
    "published",
    "late",
    "empty",
    "unread",
    "gap",
    "skipped",
    "accepted",
    "retired",
    "withdrawn",
    "removed",
    "building",
    "waiting",
    "missing",
    "failed",
    "damaged",
]
STATES: Final[tuple[State, ...]] = get_args(State)


# Named tuples, of which there is one for each of thousands of versions.
class Judgement(NamedTuple):
    """A state, with its reason.

    Attributes:
        state: The state.
        reason: Why, in one line; empty where the state says it all.
        since: Since when, seconds since 1970; None where that is not known.
    """

    state: State
    reason: str
    since: int | None


class Published(NamedTuple):
    """The evidence about an interval with a version for readers.

    Attributes:
        published: When it was published, seconds since 1970.
        damage: Why the manifest cannot be used, or None.
        unread: Offsets that no interval has read, or two have, one line for each range.
        lost: Recorded losses of the version, likewise.
        late: Time since which late records of the interval are known, seconds since 1970, and the
            interval that has them; None without such records.
        empty: Why the version is empty; None if it is not.
        ended: The last attempt, if it is younger than the version and published nothing.
    """

    published: int
    damage: str | None = None
    unread: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    late: tuple[int, str] | None = None
    empty: str | None = None
    ended: Unpublished | None = None


def judge_published(found: Published) -> Judgement:
    """Return the state of an interval with a version."""
    attempt = "" if found.ended is None else f"the next generation failed: {found.ended.text}"
    if found.damage is not None:
        return Judgement("damaged", found.damage, None)
    if found.unread:
        reason = _joined(*found.unread, *found.lost, attempt)
        return Judgement("unread", reason, found.published)
    if found.lost:
        return Judgement("gap", _joined(*found.lost, attempt), found.published)
    if found.late is not None:
        since, interval = found.late
        return Judgement("late", _joined(f"late records are in {interval}", attempt), since)
    if found.empty is not None:
        return Judgement("empty", _joined(found.empty, attempt), found.published)
    return Judgement("published", attempt, found.published)


@dataclass(frozen=True)
class Absent:
    """The evidence about an expected interval without a version for readers.

    Attributes:
        end: End of the interval, aware UTC.
        damage: Why a record about the interval cannot be used, or None.
        gone: The retirement; or the newest generation, if marks hide all of them; or None.
        skip: The decision to leave it out, or None.
        attempt: An attempt that has not ended in good order, or None.
        ended: The record of the last attempt that ended, or None.
        plans: Ids of the plans.
    """

    end: datetime
    damage: str | None = None
    gone: Gone | None = None
    skip: Skip | None = None
    attempt: FoundAttempt | None = None
    ended: Unpublished | None = None
    plans: tuple[str, ...] = ()


def judge_absent(found: Absent, expected: Expected, now: datetime) -> Judgement:
    """Return the state of an interval without a version.

    Args:
        found: The evidence.
        expected: The rules of the data set.
        now: Aware UTC time.
    """
    if found.damage is not None:
        return Judgement("damaged", found.damage, None)
    if found.attempt is not None and found.attempt.is_alive:
        return Judgement("building", found.attempt.text, _seconds(found.attempt.began))
    is_retired = found.gone is not None and found.gone.state == "retired"
    if found.skip is not None and not is_retired:
        return Judgement("skipped", found.skip.why, _seconds(found.skip.at))
    if found.gone is not None:
        return _by_mark(found, found.gone, expected, now)
    return (
        _by_clock(found, expected, now)
        or _by_attempt(found)
        or _by_record(found, expected, now)
        or _by_wait(found, expected, now)
        or _missing(found, expected)
    )


def _by_mark(found: Absent, gone: Gone, expected: Expected, now: datetime) -> Judgement:
    """Return the state after a mark, unless an attempt at a further generation ended later."""
    attempt, ended = found.attempt, found.ended
    later = replace(
        found,
        attempt=None if attempt is None or _is_before(attempt.began, gone) else attempt,
        ended=None if ended is None or _is_before(ended.since, gone) else ended,
    )
    judged = _by_attempt(later) or _by_record(later, expected, now)
    if judged is not None:
        return judged._replace(reason=_joined(gone.mark, judged.reason))
    return Judgement(gone.state, gone.mark, gone.since or None)


def _is_before(time: str, gone: Gone) -> bool:
    return (_seconds(time) or 0) < gone.since


def _by_clock(found: Absent, expected: Expected, now: datetime) -> Judgement | None:
    ready = expected.ready(found.end)
    if now >= ready:
        return None
    reason = f"it ends at {format_time(found.end)}"
    if now >= found.end:
        reason = f"it has ended, and settles until {format_time(ready)}"
    return Judgement("waiting", reason, None)


def _by_attempt(found: Absent) -> Judgement | None:
    """Return the state after an attempt that was killed, unless a later one ended with an error."""
    if found.attempt is None:
        return None
    began = _seconds(found.attempt.began)
    if found.ended is not None and (_seconds(found.ended.since) or 0) >= (began or 0):
        return None
    return Judgement("failed", found.attempt.text, began)


def _by_record(found: Absent, expected: Expected, now: datetime) -> Judgement | None:
    ended = found.ended
    if ended is None:
        return None
    since = _seconds(ended.since)
    if ended.outcome != "waiting":
        again = "; the next attempt may succeed" if ended.outcome == "retry" else ""
        return Judgement("failed", f"{ended.work}: {ended.text}{again}", since)
    deadline = expected.deadline(found.end)
    if expected.schedule is None or now < deadline:
        return Judgement("waiting", f"{ended.work}: {ended.text}", since)
    if expected.wait is not None:
        return None
    over = f"the wait ended at {format_time(deadline)}; {ended.work}: {ended.text}"
    return Judgement("failed", over, int(deadline.timestamp()))


def _by_wait(found: Absent, expected: Expected, now: datetime) -> Judgement | None:
    if expected.wait is None or now >= expected.deadline(found.end):
        return None
    until = format_time(expected.deadline(found.end))
    since = int(expected.ready(found.end).timestamp())
    return Judgement("waiting", f"its source may come until {until}", since)


def _missing(found: Absent, expected: Expected) -> Judgement:
    due = expected.deadline(found.end) if expected.wait is not None else expected.ready(found.end)
    reasons = []
    if found.ended is not None:
        reasons.append(f"{found.ended.work}: {found.ended.text}")
    if expected.missing is not None:
        reasons.append(
            f"the wait for its source ended at {format_time(due)}; the next build decides by"
            f" 'missing: {expected.missing}'"
        )
    if found.plans:
        reasons.append(f"planned as {found.plans[-1]}, and no attempt is at work")
    return Judgement("missing", _joined(*reasons), int(due.timestamp()))


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _seconds(text: str) -> int | None:
    """Return a time of a record as seconds since 1970."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return int(parse_time(text).timestamp())
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp())

"""The oracle notices wrong builds: each fault is planted in the result of a right build."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest

from tests.model.builds import Built, Outcome, Stop
from tests.model.histories import PAST, History
from tests.model.oracle import judge
from tests.model.partition_log import NEVER
from tests.model.promises import broken
from tests.model.simulated_topic import Incarnation
from tests.model.streams import DAY, Windows
from tests.model.test_simulated_broker import log_of
from trainfeed.pipeline.functions.account import Lateness

CLOSING = 10 * DAY
WINDOWS = Windows(DAY, DAY, 2)


def history_of(log):
    topic = Incarnation("first", {0: log}, 0, NEVER)
    edges = tuple(WINDOWS.start(i) for i in range(3))
    return History(0, "nightly", WINDOWS, (topic,), (), 0, edges, CLOSING, 0, DAY, False)


def two_days():
    """Return a log of six records: three of each window."""
    return log_of([WINDOWS.start(i // 3) + i % 3 for i in range(6)])


def version(log, window, start, end, *, gaps=(), log_start=0, now=CLOSING):
    counted = Lateness()
    seen = log.at(now)
    inside = (seen.offsets >= start) & (seen.offsets < end)
    low = 0 if window == PAST else WINDOWS.start(window)
    counted.count(seen.stamps[inside], low, WINDOWS.start(max(window, 0) + (window != PAST)))
    return Built(window, now, "first", {0: (start, end)}, {0: (start, log_start)},
                 {0: seen.offsets[inside]}, list(gaps), {0: counted}, {}, {})  # fmt: skip


def judged(log, *versions, **more):
    """Judge these versions, and one of all the past up to the first of them."""
    first = min(versions, key=lambda built: built.window)
    versions = [*versions, version(log, PAST, 0, first.ranges[0][0])]
    outcome = Outcome(built={built.window: built for built in versions}, **more)
    return judge(history_of(log), outcome)


def test_two_right_days_have_every_record_once():
    log = two_days()
    counts, lines = judged(log, version(log, 0, 0, 3), version(log, 1, 3, 6))
    assert lines == []
    assert (counts["records"], counts["once"], counts["versions"]) == (6, 6, 2)
    assert broken(counts, needless=0, most_needless=0) == []


@pytest.mark.parametrize(
    ("second", "kind", "number"),
    [((4, 6), "lost", 1), ((3, 5), "lost", 1), ((2, 6), "doubled", 1), ((6, 6), "empty_wrong", 1)],
)
def test_a_hole_an_overlap_and_an_empty_day_are_seen(second, kind, number):
    log = two_days()
    counts, lines = judged(log, version(log, 0, 0, 3), version(log, 1, *second))
    assert counts[kind] == number
    assert lines
    assert broken(counts, needless=0, most_needless=0)


def test_a_wrong_counter_is_seen():
    log = two_days()
    wrong = version(log, 0, 0, 3)
    wrong.counted[0].late += 1
    counts, lines = judged(log, wrong, version(log, 1, 3, 6))
    assert counts["miscounted"] == 1
    assert lines[0].startswith("counters: window 0/0")


def test_unstamped_records_are_a_count_of_their_own():
    log = two_days()
    log.entries.stamps[:] = -1
    counts, _ = judged(log, version(log, 0, 0, 3), version(log, 1, 3, 6))
    assert counts["miscounted"] == 0


def test_records_that_retention_took_are_named_or_silently_lost():
    log = two_days()
    log.deletions = [(100, 5)]
    gap = {"source": "kafka:events/0", "start": 3, "end": 5}
    first = version(log, 0, 0, 3, now=50)  # before the deletion
    named, _ = judged(log, first, version(log, 1, 5, 6, gaps=[gap], log_start=5))
    assert (named["named"], named["silent"], named["lost"]) == (2, 0, 0)
    silent, lines = judged(log, first, version(log, 1, 5, 6, log_start=5))
    assert (silent["named"], silent["silent"], silent["lost"]) == (0, 2, 0)
    assert lines[0].startswith("silent: first/0: 2 records from 3 on")
    partly = [gap | {"start": 4}]
    unnamed, lines = judged(log, first, version(log, 1, 5, 6, gaps=partly, log_start=5))
    assert (unnamed["named"], unnamed["unnamed"], unnamed["silent"]) == (1, 1, 0)
    assert lines[0].startswith("unnamed: first/0: 1 records from 3 on")


def test_a_version_of_deleted_offsets_is_seen():
    log = two_days()
    log.deletions = [(100, 2)]
    counts, _ = judged(log, version(log, 0, 0, 3), version(log, 1, 3, 6))
    assert counts["torn"] == 1


def test_a_stop_is_needless_when_the_window_has_lost_nothing():
    log = two_days()
    log.deletions = [(100, 3)]
    versions = [version(log, 0, 0, 3, now=50), version(log, 1, 3, 6)]
    stops = [Stop(window, CLOSING, "first", "") for window in (0, 1)]
    counts, _ = judged(log, *versions, stops=[stops[1]])
    assert (counts["stops"], counts["needless"]) == (1, 1)
    counts, _ = judged(log, versions[1], stops=[stops[0]])
    assert (counts["stops"], counts["needless"]) == (1, 0)


def test_retries_that_differ_and_unexpected_errors_break_a_promise():
    log = two_days()
    counts, lines = judged(log, version(log, 0, 0, 3), version(log, 1, 3, 6),
                           unlike=["window 0"], errors=["window 1: OSError"])  # fmt: skip
    assert lines == ["retry: window 0", "error: window 1: OSError"]
    assert len(broken(counts, needless=0, most_needless=0)) == 2


def test_rates_are_held():
    counts = Counter(logs=19_999, versions=1999, empty_wrong=1, logs_silent=0)
    assert broken(counts, needless=3, most_needless=3) == []
    assert len(broken(counts + Counter(empty_wrong=1), needless=4, most_needless=3)) == 2
    assert len(broken(counts + Counter(logs_silent=1), needless=3, most_needless=3)) == 1
    assert broken(counts + Counter(logs_silent=1, logs=1), needless=3, most_needless=3) == []


def test_records_of_a_replaced_topic_are_told_apart():
    log, following = two_days(), log_of([WINDOWS.start(1)])
    history = history_of(log)
    topics = (
        Incarnation("first", {0: log}, 0, 2 * DAY),
        Incarnation("second", {0: following}, 2 * DAY, NEVER),
    )
    history = dataclasses.replace(history, incarnations=topics)
    second = dataclasses.replace(version(following, 1, 0, 1), uuid="second")
    outcome = Outcome(built={0: version(log, 0, 0, 3), 1: second})
    counts, _ = judge(history, outcome)
    assert (counts["gone"], counts["gone_silent"], counts["lost"]) == (3, 3, 0)
    assert np.array_equal(history.incarnation(CLOSING).partitions[0].entries.stamps, [2 * DAY])

"""Where a point in time lies in a partition, on topics held in memory."""

from __future__ import annotations

import pytest

from tests.unit.sources.memory_topic import MemoryTopic
from trainfeed.errors import ConfigError, OffsetOutOfRangeError
from trainfeed.sources import Known, find_boundaries

SECOND = 1000
MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
START = 1_356_998_400_000  # 2013-01-01
YEAR_2099 = 4_070_908_800_000
CLOCK = START + 365 * DAY
SKEW = HOUR


def by_the_minute(count, *, first=0, at=START):
    return {first + i: at + i * MINUTE for i in range(count)}


def find(topic, timestamp_ms, *, clock_ms=CLOCK, **known):
    found = find_boundaries(
        topic, timestamp_ms, skew_ms=SKEW, clock_ms=clock_ms, known={0: Known(**known)}
    )
    return found[0]


def test_the_index_is_believed_when_its_record_is_stamped_at_the_boundary():
    topic = MemoryTopic(by_the_minute(3000))
    boundary = find(topic, START + DAY)
    assert boundary.offset == 1440
    assert boundary.record_timestamp_ms == START + DAY
    assert (boundary.log_start, boundary.log_end) == (0, 3000)
    assert boundary.leader_epoch == 7
    assert boundary.method == "index"
    assert topic.num_read == 64


def test_the_first_record_after_the_boundary_is_taken_when_none_is_exactly_at_it():
    boundary = find(MemoryTopic(by_the_minute(3000)), START + DAY - 1)
    assert (boundary.offset, boundary.record_timestamp_ms) == (1440, START + DAY)


def test_a_record_that_is_late_by_a_little_stays_behind_the_boundary():
    """KA-13."""
    stamps = by_the_minute(3000) | {1450: START + DAY - MINUTE, 1500: START}
    boundary = find(MemoryTopic(stamps), START + DAY)
    assert (boundary.offset, boundary.method) == (1440, "index")


def test_an_early_record_stamped_in_2099_does_not_empty_later_days():
    """KA-14."""
    topic = MemoryTopic(by_the_minute(6000) | {5: YEAR_2099})
    found = [find(topic, START + day * DAY) for day in range(1, 5)]
    assert [boundary.offset for boundary in found] == [1440, 2880, 4320, 5760]
    assert {boundary.method for boundary in found} == {"scan"}


def test_several_records_stamped_ahead_do_not_hide_the_boundary():
    """KA-14."""
    ahead = dict.fromkeys([5, 6, 100, 1438, 1439, 1441], YEAR_2099)
    topic = MemoryTopic(by_the_minute(6000) | ahead)
    assert find(topic, START + DAY).offset == 1440
    assert find(topic, START + 2 * DAY).offset == 2880


def test_the_search_starts_at_the_floor():
    topic = MemoryTopic(by_the_minute(6000) | {5: YEAR_2099})
    boundary = find(topic, START + 4 * DAY, floor=5700)
    assert boundary.offset == 5760
    # All of [5700, 6000), and 64 records around a hint that pointed before the floor.
    assert topic.num_read == 364


def test_a_pause_of_days_ends_at_the_first_record_after_it():
    topic = MemoryTopic(by_the_minute(1000) | by_the_minute(2000, first=1000, at=START + 8 * DAY))
    boundary = find(topic, START + 3 * DAY)
    assert (boundary.offset, boundary.method) == (1000, "scan")
    assert boundary.record_timestamp_ms == START + 8 * DAY


def test_a_pause_shortly_before_the_log_end_ends_at_the_first_record_after_it():
    topic = MemoryTopic(by_the_minute(1000) | by_the_minute(20, first=1000, at=START + 8 * DAY))
    assert find(topic, START + 3 * DAY).offset == 1000


def test_records_stamped_after_the_time_of_planning_stay_with_what_precedes_them():
    stamps = by_the_minute(1440) | {1440: YEAR_2099, 1441: START, 1442: YEAR_2099}
    boundary = find(MemoryTopic(stamps), START + DAY)
    assert (boundary.offset, boundary.record_timestamp_ms) == (1443, None)
    assert boundary.evidence.without_evidence == 2


def test_without_a_record_after_the_boundary_it_is_the_log_end():
    boundary = find(MemoryTopic(by_the_minute(100)), START + DAY)
    assert (boundary.offset, boundary.record_timestamp_ms) == (100, None)
    assert boundary.method == "end"


@pytest.mark.parametrize("log_end", [0, 42])
def test_an_empty_log_has_its_boundaries_at_its_end(log_end):
    topic = MemoryTopic({}, log_start=log_end, log_end=log_end)
    boundary = find(topic, START)
    assert (boundary.offset, boundary.log_start, boundary.method) == (log_end, log_end, "end")


def test_a_last_record_stamped_ahead_moves_no_boundary():
    topic = MemoryTopic(by_the_minute(100) | {100: YEAR_2099})
    assert find(topic, START + DAY).offset == 101
    grown = MemoryTopic(
        dict(zip(topic.offsets, topic.stamps, strict=True))
        | by_the_minute(5000, first=101, at=START + DAY)
    )
    assert find(grown, START + 2 * DAY, floor=101).offset == 101 + 1440


def test_records_stamped_long_ago_are_before_every_boundary():
    """KA-15."""
    topic = MemoryTopic(by_the_minute(3000) | {10: 0, 1439: -1})
    assert find(topic, START + DAY).offset == 1440


def test_a_hint_at_an_offset_without_a_record_leads_to_the_next_record():
    """A transaction marker is in the index, but no reader sees it (KA-09)."""
    stamps = by_the_minute(3000)
    del stamps[1000]
    topic = MemoryTopic(stamps, hint=1000)
    assert find(topic, START + DAY).offset == 1440


def test_a_hint_without_any_record_behind_it_is_the_log_end():
    topic = MemoryTopic(by_the_minute(10), log_end=12, hint=10)
    assert find(topic, START + DAY).offset == 12


def test_a_record_that_came_after_the_log_end_was_noted_is_not_counted():
    topic = MemoryTopic(by_the_minute(1441), log_end=1430)
    assert find(topic, START + DAY).offset == 1430


def test_the_boundary_stays_between_those_of_earlier_and_later_times():
    topic = MemoryTopic(by_the_minute(3000))
    above = find(topic, START + DAY, floor=2000)
    assert (above.offset, above.record_timestamp_ms) == (2000, START + 2000 * MINUTE)
    below = find(topic, START + DAY, ceiling=1000)
    assert (below.offset, below.record_timestamp_ms) == (1000, START + 1000 * MINUTE)
    between = find(topic, START + DAY, floor=1440, ceiling=1440)
    assert (between.offset, between.record_timestamp_ms) == (1440, START + DAY)


def test_a_ceiling_ends_the_search():
    topic = MemoryTopic(by_the_minute(6000) | {5: YEAR_2099})
    boundary = find(topic, START + 4 * DAY, floor=100, ceiling=200)
    assert (boundary.offset, boundary.record_timestamp_ms) == (200, START + 200 * MINUTE)
    assert topic.num_read < 300


def test_a_ceiling_that_retention_has_passed_has_no_stamp():
    topic = MemoryTopic(by_the_minute(100, first=500, at=START + DAY))
    boundary = find(topic, START, ceiling=400)
    assert (boundary.offset, boundary.record_timestamp_ms) == (400, None)
    assert boundary.log_start == 500


def test_a_log_that_ends_before_a_known_boundary_was_truncated():
    """KA-04."""
    with pytest.raises(OffsetOutOfRangeError, match="log truncated: planned end 150 > log end 100"):
        find(MemoryTopic(by_the_minute(100)), START + DAY, floor=150)


def test_known_boundaries_in_the_wrong_order_are_refused():
    with pytest.raises(ConfigError, match="contradict each other: 20 at an earlier time, 10"):
        find(MemoryTopic(by_the_minute(100)), START, floor=20, ceiling=10)


def test_neighbouring_days_share_records_exactly_once_whatever_the_stamps():
    """The days' ranges join without overlap or hole, with stamps out of order (KA-13)."""
    stamps = by_the_minute(6000) | {5: YEAR_2099, 1500: START, 3000: 0, 4319: YEAR_2099}
    topic = MemoryTopic(stamps)
    times = [START + day * DAY for day in range(6)]
    forward, floor = [], None
    for at in times:
        floor = find(topic, at, floor=floor).offset
        forward.append(floor)
    backward, ceiling = [], None
    for at in reversed(times):
        ceiling = find(topic, at, ceiling=ceiling).offset
        backward.append(ceiling)
    assert forward == sorted(forward) == backward[::-1]
    assert (forward[0], forward[-1]) == (0, 6000)


def test_each_test_of_the_index_is_written_down():
    topic = MemoryTopic(by_the_minute(3000))
    assert find(topic, START + 9 * DAY).evidence.index_test == "passed"
    blind = MemoryTopic(by_the_minute(3000), hint=-1)
    assert find(blind, START + DAY).offset == 1440
    assert find(blind, START + DAY).evidence.index_test == "contradicted"
    assert find(blind, START + 9 * DAY).offset == 3000
    assert find(blind, START + 9 * DAY).evidence.method == "exact"


def test_an_open_transaction_at_the_boundary_is_not_settled():
    """KA-10: what it hides may come before the boundary."""
    topic = MemoryTopic(by_the_minute(1000), log_end=900, high_watermark=1000)
    assert not find(topic, START + DAY).is_settled
    assert find(topic, START + 600 * MINUTE).is_settled
    # The boundary of a later time was found when nothing was open.
    assert find(topic, START + DAY, ceiling=900).is_settled


@pytest.mark.parametrize(
    ("stamps", "proof"),
    [
        (by_the_minute(3000, first=10, at=START + 1), "minutes"),
        (by_the_minute(20, first=1440, at=START + DAY), "exact_stamp"),
        (by_the_minute(20, first=1440, at=START + DAY + 1), None),
        # Late records behind those of the day are none of the time before it.
        (by_the_minute(9, first=1440, at=START + DAY + 1) | by_the_minute(40, first=1449), None),
        (by_the_minute(2, first=10, at=START + 5) | by_the_minute(90, first=12, at=START + DAY + 1),
         None),
    ],
)  # fmt: skip
def test_what_retention_left_is_proof_or_not(stamps, proof):
    assert find(MemoryTopic(stamps), START + DAY).evidence.proof == proof


def test_dense_records_that_are_left_are_proof():
    """A hundred of them share a minute."""
    stamps = {7 + i: START + DAY - 100 * MINUTE + 600 * i + 7 for i in range(20_000)}
    assert find(MemoryTopic(stamps), START + DAY).evidence.proof == "minutes"


def left(*stamps, first=10):
    """What retention has left from offset ``first`` on, then two hours of the day."""
    behind = [START + DAY + HOUR + i * MINUTE for i in range(120)]
    return MemoryTopic(dict(enumerate([*stamps, *behind], start=first)))


@pytest.mark.parametrize("minutes", [60, 5 * 24 * 60])
def test_a_stream_that_began_well_before_the_time_is_proof(minutes):
    before = [START + DAY - i * MINUTE for i in range(minutes, 0, -1)]
    assert find(left(*before), START + DAY).evidence.proof == "minutes"


def test_a_pause_over_the_time_is_proof_still():
    evening = [START + DAY - 15 * HOUR + i * 10 * MINUTE for i in range(30)]
    assert find(left(*evening), START + DAY).evidence.proof == "minutes"


def test_single_late_records_in_what_is_left_do_not_make_it_less():
    before = [START + DAY - i * MINUTE for i in range(600, 0, -1)]
    for nth in range(7, 600, 20):
        before[nth] -= (1 + 7 * nth % 72) * HOUR
    assert find(left(*before), START + DAY).evidence.proof == "minutes"


@pytest.mark.parametrize("count", [60, 600])
def test_a_burst_of_late_records_of_several_minutes_is_no_proof(count):
    """Retention has left the burst and what follows, and taken the morning before it."""
    burst = [START - 2 * DAY + i * 5 * SECOND for i in range(count)]
    assert find(left(*burst), START + DAY).evidence.proof is None


def test_a_burst_of_late_records_at_the_log_end_is_no_proof():
    burst = [START - 3 * DAY + i * SECOND for i in range(200)]
    strays = [START - 44 * HOUR, START - 20 * HOUR]
    topic = MemoryTopic(dict(enumerate([*strays, *burst], start=10)))
    assert find(topic, START + DAY).evidence.proof is None


def test_late_records_that_came_in_a_pause_are_no_proof():
    """They are of several minutes, and do not follow each other in time."""
    hours = [5, 14, 20, 119, 3]
    assert find(left(*(START + DAY - h * HOUR for h in hours)), START + DAY).evidence.proof is None


def test_what_lies_within_the_jitter_of_the_time_is_no_proof():
    """A record just before the log start may be stamped after the time."""
    before = [START + DAY - (25 - i) * MINUTE for i in range(24)]
    assert find(left(*before), START + DAY).evidence.proof is None


@pytest.mark.parametrize(("answer", "proof"), [("earlier_boundary",) * 2, (None, None)])
def test_an_earlier_boundary_is_proof(answer, proof):
    asked = []
    topic = MemoryTopic(by_the_minute(20, first=1440, at=START + DAY + 1))
    known = find(topic, START + DAY, earlier=lambda start: asked.append(start) or answer)
    assert (known.evidence.proof, asked) == (proof, [1440])

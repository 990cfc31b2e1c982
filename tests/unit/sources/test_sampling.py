"""Boundaries in ranges that are too long to look at every record."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.sources.memory_topic import MemoryTopic
from trainfeed.sources import Known, find_boundaries

SECOND = 1000
HOUR = 3_600_000
DAY = 24 * HOUR
START = 1_704_067_200_000  # 2024-01-01
YEAR_2099 = 4_070_908_800_000
CLOCK = START + 30 * DAY


def steady(count, *, at=START, span_ms=DAY):
    """``count`` stamps spread evenly over ``span_ms`` from ``at`` on."""
    return at + np.arange(count, dtype=np.int64) * span_ms // count


def log(*parts, **options):
    stamps = np.concatenate(parts)
    return MemoryTopic(dict(enumerate(stamps.tolist())), **options)


def find(topic, at_ms, **known):
    return find_boundaries(topic, at_ms, skew_ms=DAY, clock_ms=CLOCK, known={0: Known(**known)})[0]


@pytest.mark.parametrize("stamp", [YEAR_2099, -1, START * 1000])
@pytest.mark.parametrize("length", [1_000, 30_000, 300_000])
def test_a_stretch_without_evidence_loses_no_record(stamp, length):
    """Records of days 0 and 1, the stretch in the middle of day 1, then days 1 to 3."""
    silent = np.full(length, stamp, np.int64)
    topic = log(
        steady(40_000), steady(20_000, at=START + DAY, span_ms=DAY // 2), silent,
        steady(20_000, at=START + DAY + DAY // 2, span_ms=DAY // 2),
        steady(40_000, at=START + 2 * DAY), steady(40_000, at=START + 3 * DAY), hint=-1,
    )  # fmt: skip
    found = [find(topic, START + day * DAY).offset for day in range(1, 5)]
    assert found == [40_000, 80_000 + length, 120_000 + length, 160_000 + length]


@pytest.mark.parametrize("length", [30_000, 300_000])
def test_a_stretch_without_evidence_at_a_boundary_stays_with_what_precedes_it(length):
    topic = log(steady(40_000), np.full(length, YEAR_2099), steady(40_000, at=START + DAY), hint=-1)
    assert find(topic, START + DAY).offset == 40_000 + length


@pytest.mark.parametrize("stamp", [YEAR_2099, -1])
@pytest.mark.parametrize("length", [1, 5_000, 200_000])
def test_a_log_without_any_evidence_is_in_the_interval_that_is_built_first(stamp, length):
    topic = log(np.full(length, stamp))
    first = find(topic, START).offset
    assert (first, find(topic, START + DAY, floor=first).offset) == (0, length)


@pytest.mark.parametrize("length", [1, 5_000, 200_000])
def test_records_without_evidence_at_the_beginning_go_with_what_follows(length):
    """Nothing precedes them that they could stay with: they would be in no interval."""
    topic = log(np.full(length, -1), steady(40_000), steady(40_000, at=START + DAY))
    assert find(topic, START).offset == 0
    assert find(topic, START + DAY).offset == length + 40_000


@pytest.mark.parametrize("stamp", [START + 5 * HOUR + DAY, START + 20 * DAY])
@pytest.mark.parametrize("length", [1_000, 5_000, 60_000])
def test_a_burst_stamped_ahead_moves_no_boundary_of_later_days(stamp, length):
    quiet = 3_000
    topic = log(
        steady(quiet // 2, span_ms=DAY // 2), np.full(length, stamp, np.int64),
        steady(quiet // 2, at=START + DAY // 2, span_ms=DAY // 2),
        *(steady(quiet, at=START + day * DAY) for day in range(1, 6)),
    )  # fmt: skip
    found = [find(topic, START + day * DAY).offset for day in range(1, 6)]
    assert found == [length + day * quiet for day in range(1, 6)]


def test_three_million_records_take_few_reads():
    days = [steady(500_000, at=START + day * DAY) for day in range(6)]
    topic = log(*days)
    assert find(topic, START + 2 * DAY).offset == 1_000_000
    assert topic.num_read == 64


def test_a_burst_in_three_million_records_takes_a_bounded_number_of_reads():
    burst = np.full(200_000, START + 8 * DAY, np.int64)
    days = [steady(500_000, at=START + day * DAY) for day in range(6)]
    topic = log(days[0], burst, *days[1:])
    assert find(topic, START + 3 * DAY).offset == 1_700_000
    assert topic.num_read <= 40_000


def test_large_records_are_not_all_read():
    """Of 1 MiB each: what a question may bring along bounds it."""

    class Large(MemoryTopic):
        def read_stamps(self, partition, start, end, *, max_records, max_bytes=16 << 20):
            most = min(max_records, max(1, max_bytes >> 20))
            return super().read_stamps(partition, start, end, max_records=most)

    stamps = np.concatenate([steady(2_000), steady(2_000, at=START + DAY)])
    topic = Large(dict(enumerate(stamps.tolist())), hint=0)
    assert find(topic, START + DAY).offset == 2_000
    assert topic.num_read < 1_000


def test_holes_of_a_compacted_log_end_no_search():
    rows = np.sort(np.random.default_rng(3).choice(2_000_000, 5_000, replace=False))
    stamps = START + rows * (4 * DAY) // 2_000_000
    topic = MemoryTopic(dict(zip(rows.tolist(), stamps.tolist(), strict=True)), hint=-1)
    at = START + 2 * DAY
    assert find(topic, at).offset == rows[np.searchsorted(stamps, at)]


def test_a_range_of_equal_stamps_is_cut_where_the_time_lies():
    """Seconds as stamps, thousands of records each: no block shows how time passes."""
    stamps = (steady(400_000) // SECOND) * SECOND
    topic = log(stamps, (steady(400_000, at=START + DAY) // SECOND) * SECOND, hint=0)
    assert find(topic, START + DAY).offset == 400_000

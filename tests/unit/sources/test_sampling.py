"""Boundaries in ranges that are too long to look at every record."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.sources.memory_topic import MemoryTopic
from trainfeed.sources import Known, find_boundaries
from trainfeed.sources.boundaries import _quantile

SECOND = 1000
MINUTE = 60_000
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


class Large(MemoryTopic):
    """Records of 1 MiB each: what a question may bring along bounds it."""

    def read_stamps(self, partition, start, end, *, max_records, max_bytes=16 << 20):
        most = min(max_records, max(1, max_bytes >> 20))
        return super().read_stamps(partition, start, end, max_records=most)


def test_large_records_are_not_all_read():
    stamps = np.concatenate([steady(2_000), steady(2_000, at=START + DAY)])
    topic = Large(dict(enumerate(stamps.tolist())), hint=0)
    assert find(topic, START + DAY).offset == 2_000
    assert topic.num_read < 1_000


def test_the_last_of_large_records_contradict_an_index_that_lags_behind():
    """Those that are read together are not the last ones; twenty of the next day follow."""

    class Lagging(Large):
        def _offset_at(self, timestamp_ms):
            return super()._offset_at(timestamp_ms) if timestamp_ms < START + DAY else None

    stamps = np.concatenate([steady(30_000), steady(20, at=START + DAY, span_ms=HOUR)])
    topic = Lagging(dict(enumerate(stamps.tolist())))
    found = find(topic, START + DAY)
    assert (found.offset, found.evidence.index_test) == (30_000, "contradicted")


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


def hourly(count, *, hours, late):
    """``count`` stamps an hour, a share of them late by up to three days: (true, as stamped)."""
    rng = np.random.default_rng(1)
    true = np.sort(START + rng.integers(0, hours * HOUR, count * hours))
    is_late = rng.random(len(true)) < late
    return true, true - np.where(is_late, rng.integers(0, 3 * DAY, len(true)), 0)


@pytest.mark.parametrize(
    ("count", "late"), [(300, 0.05), (1500, 0.02), (1500, 0.05), (5000, 0.02), (5000, 0.05)]
)
def test_single_late_records_do_not_take_the_first_hour(count, late):
    """They are of more minutes than an hour has."""
    true, stamps = hourly(count, hours=3, late=late)
    # The index then answers with this one.
    stamps[count // 2] = START + 2 * HOUR + HOUR // 2
    found = [find(log(stamps), START + hour * HOUR).offset for hour in range(3)]
    wanted = [int(np.searchsorted(true, START + hour * HOUR)) for hour in range(3)]
    assert found[0] <= 2
    assert np.abs(np.subtract(found, wanted)).max() <= 5


@given(
    seed=st.integers(0, 1 << 32),
    share=st.sampled_from([0.1, 0.9, 1.0]),
    ahead=st.integers(0, 2 * DAY),
    at=st.integers(1, 3),
)
def test_strays_amid_a_dense_stream_move_no_boundary(seed, share, ahead, at):
    """Ten records a minute for four hours, and strays with six right ones between them."""
    rng = np.random.default_rng(seed)
    stamps = START + np.arange(2400, dtype=np.int64) * (MINUTE // 10)
    rows = np.array([row for row in range(7, 2390, 7) if abs(row - 600 * at) > 8])
    rows = rows[rng.random(len(rows)) < share]
    stamps[rows] += rng.integers(-3 * DAY, ahead + 1, len(rows))
    assert find(log(stamps, hint=-1), START + at * HOUR).offset == 600 * at


@pytest.mark.parametrize("length", [3, 5_000])
def test_a_day_of_few_records_keeps_its_vote_beside_a_burst_stamped_ahead(length):
    burst = np.full(length, START + 4 * DAY + HOUR, np.int64)
    few = steady(3, at=START + DAY + HOUR)
    topic = log(steady(20), burst, few, *(steady(20, at=START + d * DAY) for d in (2, 3, 4, 5)))
    assert find(topic, START + 2 * DAY).offset == 20 + length + 3


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 63, 64, 255, 256])
def test_quantiles_are_those_of_numpy_to_the_last_bit(count):
    stamps = np.sort(np.random.default_rng(count).integers(0, 1 << 41, count))
    for share in (0.25, 0.5, 0.75):
        assert _quantile(stamps, share) == float(np.quantile(stamps, share))

"""The order: a permutation that never changes, for all readers and settings."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainfeed.errors import ConfigError
from trainfeed.loader.order import (
    BatchCut,
    EpochPart,
    Order,
    RankShare,
    Tail,
    _sorted,
    lanes_for,
    permutation,
)

GOLDEN_TEN = [5, 2, 3, 6, 1, 4, 7, 9, 0, 8]
GOLDEN_THOUSAND = [842, 794, 491, 860, 862, 443, 927, 122]
GOLDEN_ORDER = [
    43,
    4,
    21,
    17,
    39,
    3,
    20,
    45,
    37,
    10,
    7,
    49,
    40,
    14,
    27,
    31,
    38,
    16,
    24,
    46,
    41,
    15,
    22,
    47,
    44,
    9,
    28,
    48,
    42,
    8,
    25,
    32,
    30,
    19,
    26,
    36,
    1,
    11,
    23,
    35,
    2,
    12,
    6,
    34,
    29,
    13,
    5,
    33,
    0,
    18,
]
GOLDEN_EPOCH_1 = [35, 41, 12, 27, 34, 44, 14, 28, 33, 38]
GOLDEN_LARGE = [2007, 206, 225, 1237, 2699, 539, 2782, 2230, 1950, 1322]
GOLDEN_RANGES = [
    [(0, 10), (10, 30), (30, 70), (70, 110), (110, 150), (150, 160)],
    [(0, 10), (10, 50), (50, 90), (90, 130), (130, 160)],
]


def num_windows(epoch, lane):
    last = epoch.lane_samples(lane) - 1
    return 0 if last < 0 else epoch.window_of(lane, last) + 1


def order(counts, *, lanes=16, window_bytes=400, seed=1, shuffle=True, digest="d"):
    counts = np.array(counts, np.int64)
    return Order(
        num_samples=counts,
        num_bytes=counts * 10,
        digest=digest,
        seed=seed,
        lanes=lanes,
        window_bytes=window_bytes,
        shuffle=shuffle,
    )


def sequence(an_order, epoch=0):
    return an_order.epoch(epoch).samples(np.arange(an_order.total)).tolist()


# --- golden: a change of any of these changes what every running job reads next -------------------


def test_permutations_never_change():
    assert permutation(0, "x").tolist() == []
    assert permutation(1, "x").tolist() == [0]
    assert permutation(10, "digest", 7, 0, "chunks").tolist() == GOLDEN_TEN
    assert permutation(1000, "digest", -3, 12, "window", 5, 9)[:8].tolist() == GOLDEN_THOUSAND


def test_orders_never_change():
    shuffled = order([5, 3, 9, 1, 4, 7, 2, 6, 8, 5], lanes=4, window_bytes=600, digest="golden")
    assert sequence(shuffled) == GOLDEN_ORDER
    assert sequence(shuffled, epoch=1)[:10] == GOLDEN_EPOCH_1
    assert sequence(order([70] * 40, digest="golden"), epoch=2)[:10] == GOLDEN_LARGE


def test_the_cuts_of_windows_never_change():
    epoch = order([10] * 64, lanes=4, window_bytes=1600, digest="golden").epoch(0)
    ranges = [
        [epoch.window_range(lane, window) for window in range(num_windows(epoch, lane))]
        for lane in (0, 3)
    ]
    assert ranges == GOLDEN_RANGES


# --- every sample once per epoch ------------------------------------------------------------------


@pytest.mark.parametrize("num_words", [1023, 1024, 5000, 32767, 32768])
@pytest.mark.parametrize("same_bits", [0, 10, 40])
def test_words_are_sorted_in_each_of_the_ways(num_words, same_bits):
    words = np.random.default_rng(num_words).integers(0, 1 << 63, num_words, np.uint64)
    words = np.unique(words >> np.uint64(same_bits))[::-1].copy()
    assert _sorted(words.copy()).tolist() == sorted(words.tolist())


@pytest.mark.parametrize("lanes", [1, 2, 16, 20])
@pytest.mark.parametrize("num_samples", [0, 1, 2, 15, 16, 17, 100])
def test_an_epoch_holds_every_sample_once(num_samples, lanes):
    for window_bytes in (1, 150, 10_000):
        for chunk in (1, 7, 100):
            counts = [min(chunk, num_samples - i) for i in range(0, num_samples, chunk)]
            for epoch in range(3):
                found = sequence(order(counts, lanes=lanes, window_bytes=window_bytes), epoch)
                assert sorted(found) == list(range(num_samples))


@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(st.integers(1, 40), max_size=30),
    lanes=st.integers(1, 40),
    window_bytes=st.integers(1, 5000),
    seed=st.integers(-(2**40), 2**40),
    epoch=st.integers(0, 2**40),
)
def test_any_order_is_a_permutation(counts, lanes, window_bytes, seed, epoch):
    found = sequence(order(counts, lanes=lanes, window_bytes=window_bytes, seed=seed), epoch)
    assert sorted(found) == list(range(sum(counts)))


@settings(max_examples=60, deadline=None)
@given(counts=st.lists(st.integers(1, 40), max_size=30), lanes=st.integers(1, 40))
def test_lanes_differ_by_at_most_one_and_windows_tile_them(counts, lanes):
    epoch = order(counts, lanes=lanes).epoch(0)
    sizes = [epoch.lane_samples(lane) for lane in range(lanes)]
    assert max(sizes) - min(sizes) <= 1
    assert sum(sizes) == sum(counts)
    for lane in range(lanes):
        end = 0
        for window in range(num_windows(epoch, lane)):
            start, stop = epoch.window_range(lane, window)
            plan = epoch.window(lane, window)
            assert (start, plan.first, stop - start) == (end, end, plan.num_samples)
            assert sum(span.stop - span.start for span in plan.spans) == plan.num_samples
            end = stop
        assert end == sizes[lane]


def test_the_natural_order_is_that_of_the_set():
    assert sequence(order([3, 4, 5], lanes=1, shuffle=False), epoch=5) == list(range(12))


def test_seed_epoch_and_content_each_give_another_order():
    counts = [10] * 20
    orders = [
        sequence(order(counts)),
        sequence(order(counts, seed=2)),
        sequence(order(counts), epoch=1),
        sequence(order(counts, digest="other")),
    ]
    assert len({tuple(found) for found in orders}) == 4


def test_a_window_holds_at_least_two_chunks_but_for_the_first():
    epoch = order([10] * 200, lanes=4, window_bytes=4).epoch(0)
    for lane in range(4):
        spans = [epoch.window(lane, w).spans for w in range(num_windows(epoch, lane))]
        assert len(spans[0]) <= 2
        assert all(len(found) >= 2 for found in spans[1:-1])


def test_windows_keep_to_their_budget():
    epoch = order([10] * 400, lanes=4, window_bytes=4000).epoch(0)
    sizes = [epoch.window(1, w).num_samples * 10 for w in range(num_windows(epoch, 1))]
    assert max(sizes) <= 1000
    assert sizes[0] <= 200


def test_shuffling_mixes_over_the_whole_set():
    # The mean distance between neighbours of a perfect shuffle of n is n / 3.
    found = np.array(sequence(order([20] * 100, window_bytes=6400)))
    assert np.abs(np.diff(found)).mean() > len(found) / 4


def test_lanes_suit_the_first_number_of_ranks():
    assert [lanes_for(n) for n in (1, 2, 3, 5, 7, 16, 17, 100)] == [16, 16, 18, 20, 21, 16, 17, 100]


# --- ranks ----------------------------------------------------------------------------------------


def read_by(an_order, share, start=0):
    """Return the positions that a rank's tasks lead to."""
    epoch = an_order.epoch(0)
    part = EpochPart(epoch, share, start, an_order.total)
    positions, needs = [], []
    for task in part.tasks():
        first, stop = epoch.window_range(task.lane, task.window)
        indices = np.arange(first + task.first, stop, task.stride)
        positions += (indices * epoch.lanes + task.lane).tolist()
        needs.append(task.need)
    assert needs == sorted(needs)
    return sorted(positions)


@pytest.mark.parametrize("lanes", [1, 4, 16])
@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 5, 6, 16, 17])
def test_tasks_of_a_rank_cover_its_positions_and_no_others(world_size, lanes):
    an_order = order([7] * 15, lanes=lanes)
    for start in (0, 1, 50, 104, 105):
        for rank in range(world_size):
            share = RankShare(rank, world_size)
            expected = share.positions(start, an_order.total).tolist()
            assert read_by(an_order, share, start) == expected


def test_a_rank_reads_only_its_own_lanes_when_their_number_divides():
    an_order = order([7] * 100, lanes=16)
    tasks = EpochPart(an_order.epoch(0), RankShare(1, 4), 0, an_order.total).tasks()
    assert {task.lane for task in tasks} == {1, 5, 9, 13}


@settings(max_examples=200, deadline=None)
@given(
    total=st.integers(0, 300),
    data=st.data(),
    world_size=st.integers(1, 9),
    batch_size=st.integers(1, 20),
    tail=st.sampled_from(list(Tail)),
)
def test_ranks_share_an_epoch_and_get_equally_many_batches(
    total, data, world_size, batch_size, tail
):
    start = data.draw(st.integers(0, total))
    cuts = [
        BatchCut(total, start, RankShare(rank, world_size), batch_size, tail)
        for rank in range(world_size)
    ]
    assert len({cut.num_batches for cut in cuts}) == 1
    found = [position for cut in cuts for position in cut.share.positions(start, cut.stop)]
    left = total - start
    whole = left // (world_size * batch_size) * world_size * batch_size
    assert sorted(found) == list(range(start, start + (whole if tail is Tail.DROP else left)))
    if tail in (Tail.PAD, Tail.REPEAT) and total:
        rows = [cut.num_samples + len(cut.padding()) for cut in cuts]
        assert set(rows) == {cuts[0].num_batches * batch_size}


def test_impossible_shares_and_cuts_are_refused():
    for rank in (-1, 2):
        with pytest.raises(ConfigError, match="expected a rank from 0 to 1"):
            RankShare(rank, 2)
    with pytest.raises(ConfigError, match="expected world_size as a whole number from 1 on, got 0"):
        RankShare(0, 0)
    with pytest.raises(ConfigError, match="expected a batch_size from 1 on, got 0"):
        BatchCut(10, 0, RankShare(0, 1), 0, Tail.SHORT)
    with pytest.raises(ConfigError, match="expected a position from 0 to 10"):
        BatchCut(10, 11, RankShare(0, 1), 1, Tail.SHORT)
    with pytest.raises(ConfigError, match="expected at least 1 lane"):
        order([1], lanes=0)

"""Splits, shards and their names."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfeed.errors import ConfigError
from trainfeed.versions.order import (
    SplitBounds,
    kafka_source,
    key_order,
    num_shards,
    position_hash,
    shard_name,
    shard_starts,
    source_hash,
    split_seed,
)

UINT64 = st.integers(0, (1 << 64) - 1)


@given(st.lists(UINT64, max_size=50), st.integers(1, 60))
def test_shard_starts_cut_sorted_keys_by_their_128_bit_products(keys, shards):
    ordered = np.array(sorted(keys), dtype=np.uint64)
    starts = [*shard_starts(ordered, shards), len(ordered)]
    for shard in range(shards):
        mine = ordered[starts[shard] : starts[shard + 1]]
        assert all((int(key) * shards) >> 64 == shard for key in mine)


@pytest.mark.parametrize("shards", [1, 2, 3, 7])
def test_the_first_key_of_a_shard_is_in_it_and_the_one_before_is_not(shards):
    edges = [((index << 64) + shards - 1) // shards for index in range(1, shards)]
    keys = np.array([key for edge in edges for key in (edge - 1, edge)], np.uint64)
    starts = shard_starts(keys, shards)
    found = [sum(start <= row for start in starts) - 1 for row in range(len(keys))]
    assert found == [shard for edge in range(1, shards) for shard in (edge - 1, edge)]


@given(UINT64)
def test_a_record_is_in_the_first_split_whose_bound_is_above_its_hash(value):
    bounds = SplitBounds.from_shares({"train": 900_000, "eval": 100_000})
    assert bounds.names == ("eval", "train")
    assert bounds.bounds == ((100_000 << 64) // 1_000_000, 1 << 64)
    expected = 0 if value < bounds.bounds[0] else 1
    assert bounds.assign(np.array([value], np.uint64)).tolist() == [expected]


def test_a_hash_equal_to_a_bound_is_in_the_next_split():
    bounds = SplitBounds.from_shares({"a": 500_000, "b": 500_000})
    edge = np.array([bounds.bounds[0] - 1, bounds.bounds[0], (1 << 64) - 1], np.uint64)
    assert bounds.assign(edge).tolist() == [0, 1, 1]


@pytest.mark.parametrize("shares", [{}, {"a": 999_999}, {"a": 1_000_001, "b": -1}])
def test_shares_that_are_no_whole_are_refused(shares):
    with pytest.raises(ConfigError, match="sum to 1000000"):
        SplitBounds.from_shares(shares)


def test_equal_keys_are_ordered_by_source_then_offset_then_ordinal():
    keys = np.array([5, 5, 5, 5, 1], np.uint64)
    sources = np.array([2, 1, 1, 1, 9], np.uint64)
    offsets, ordinals = np.array([0, 7, 3, 3, 0]), np.array([0, 0, 1, 0, 0])
    assert key_order(keys, sources, offsets, ordinals).tolist() == [4, 3, 2, 1, 0]


@pytest.mark.parametrize(
    ("planned", "share", "per_shard", "expected"),
    [(0, 900_000, 100, 1), (1000, 900_000, 100, 9), (1001, 900_000, 100, 10), (10, 0, 1, 1)],
)
def test_the_plan_alone_decides_how_many_shards_there_are(planned, share, per_shard, expected):
    assert num_shards(planned, share, per_shard) == expected


def test_more_shards_than_names_are_refused_with_the_setting():
    with pytest.raises(ConfigError, match=r"output\.samples_per_shard"):
        num_shards(10_000_000, 1_000_000, 1)


def test_a_shard_name_ends_with_the_largest_index():
    assert shard_name("flights", "train", 3, 128) == "flights-train-00003-of-00127"


def test_the_split_seed_depends_on_the_name_alone():
    assert split_seed("flights") == split_seed("flights") != split_seed("digits")


@pytest.mark.parametrize("name", ["flights\n", "Flights", "fl-ights", ""])
def test_names_that_would_spoil_a_shard_name_are_refused(name):
    with pytest.raises(ConfigError, match="is no shard name"):
        shard_name(name, "train", 0, 1)


def hashes_of(seed):
    """Hash a hundred thousand records of four partitions, as a topic numbers them."""
    offsets = np.arange(25_000)
    sources = [source_hash(kafka_source("clicks", partition)) for partition in range(4)]
    return np.concatenate([position_hash(seed, source, offsets) for source in sources])


def test_shards_are_even_within_five_standard_deviations():
    shards = 40
    starts = shard_starts(np.sort(hashes_of(7)), shards)
    sizes = np.diff([*starts, 100_000])
    share = 1 / shards
    deviation = np.sqrt(100_000 * share * (1 - share))
    assert sizes.sum() == 100_000
    assert np.abs(sizes - 100_000 * share).max() < 5 * deviation
    assert sizes.max() > sizes.min()  # drawn, not dealt out


def test_splits_have_their_share_within_five_standard_deviations():
    bounds = SplitBounds.from_shares({"train": 900_000, "eval": 100_000})
    hashes = hashes_of(split_seed("clicks"))
    found = bounds.assign(hashes)
    deviation = np.sqrt(100_000 * 0.1 * 0.9)
    assert abs(int((found == 0).sum()) - 10_000) < 5 * deviation
    # Each record keeps its split whatever stands beside it.
    assert bounds.assign(hashes[::-1][:999]).tolist() == found[::-1][:999].tolist()

"""DistributedBatchSampler: the known vectors, equal counts, padding that shows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfeed.compat.paddle.loading import DistributedBatchSampler


@pytest.mark.parametrize(
    ("length", "size", "expected"),
    [
        (10, 2, [[[0, 1], [8]], [[2, 3], [9]], [[4, 5], [0]], [[6, 7], [1]]]),
        (10, 3, [[[0, 1, 2], [6, 7]], [[3, 4, 5], [8, 9]]]),
        (3, 2, [[[i % 3]] for i in range(8)]),
        (0, 2, [[], []]),
    ],
)
def test_known_vectors(length, size, expected):
    ranks = len(expected)
    got = [list(DistributedBatchSampler(range(length), size, ranks, r)) for r in range(ranks)]
    assert got == expected


@given(
    st.integers(0, 60),
    st.integers(1, 7),
    st.integers(1, 9),
    st.booleans(),
    st.booleans(),
    st.integers(0, 3),
)
def test_every_position_once_beside_the_padding(length, size, ranks, shuffle, drop, epoch):
    passes = []
    for rank in range(ranks):
        sampler = DistributedBatchSampler(length, size, ranks, rank, shuffle, drop)
        sampler.set_epoch(epoch)
        batches = list(sampler)
        assert len(batches) == len(sampler)
        passes.append(batches)
    assert len({tuple(map(len, batches)) for batches in passes}) <= 1
    real = [
        position
        for batches in passes
        for batch in batches
        for position, is_padding in zip(batch, batch.is_padding, strict=True)
        if not is_padding
    ]
    assert len(real) == len(set(real))
    if not drop:
        assert sorted(real) == list(range(length))


def test_the_order_is_that_of_the_original():
    sampler = DistributedBatchSampler(8, 4, shuffle=True)
    for epoch in range(2):
        expected = list(range(8))
        np.random.RandomState(epoch).shuffle(expected)
        assert [i for batch in sampler for i in batch] == expected
    sampler.set_epoch(0)
    first = list(range(8))
    np.random.RandomState(0).shuffle(first)
    assert [i for batch in sampler for i in batch] == first


@pytest.mark.parametrize(("size", "ranks", "rank"), [(0, 1, 0), (1, 0, 0), (1, 2, 2), (1, 2, -1)])
def test_numbers_out_of_range_are_refused(size, ranks, rank):
    with pytest.raises(ValueError, match="expected "):
        DistributedBatchSampler(10, size, ranks, rank)


@pytest.mark.parametrize(
    "arguments",
    [(10, 2.5), (10, "2"), (10, True), (-1, 2), (10, 0), (10, 2, 0), (10, 2, 2.0), (10, 2, 4, 4)],
)
def test_numbers_without_sense_are_refused_early(arguments):
    with pytest.raises(ValueError, match="expected"):
        DistributedBatchSampler(*arguments)
    with pytest.raises(ValueError, match="expected epoch"):
        DistributedBatchSampler(10, 2).set_epoch(-1)


def test_a_length_may_be_a_number_of_any_type():
    assert len(DistributedBatchSampler(np.int64(10), np.int32(4))) == 3

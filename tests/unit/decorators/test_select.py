"""Shuffling is a permutation of windows, a function of seed and pass, and the same on blocks."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfeed.decorators import batch, chain, set_epoch, shuffle
from trainfeed.readers import np_array


def numbers(n):
    return lambda: iter(range(n))


@given(st.integers(0, 60), st.integers(0, 25), st.integers(0, 2**63), st.integers(0, 5))
def test_every_window_is_permuted_in_itself(n, size, seed, epoch):
    reader = shuffle(numbers(n), size, seed=seed)
    set_epoch(reader, epoch)
    got = list(reader())
    step = max(1, size)
    for start in range(0, n, step):
        assert sorted(got[start : start + step]) == list(range(start, min(n, start + step)))


@given(
    st.lists(st.integers(1, 9), max_size=8),
    st.integers(0, 12),
    st.integers(0, 9),
    st.integers(0, 3),
)
def test_blocks_give_the_same_order_as_samples(lengths, size, seed, epoch):
    edges = np.cumsum([0, *lengths])
    parts = [np.arange(a, b) for a, b in itertools.pairwise(edges)]
    blocks = shuffle(chain(*map(np_array, parts or [np.arange(0)])), size, seed=seed)
    samples = shuffle(numbers(int(edges[-1])), size, seed=seed)
    for reader in (blocks, samples):
        set_epoch(reader, epoch)
    assert list(blocks()) == list(samples())
    assert [row for block in reblocked(blocks, epoch) for row in block] == reordered(samples, epoch)


def reblocked(reader, epoch):
    set_epoch(reader, epoch)
    return [block["value"].tolist() for block in reader.blocks()]


def reordered(reader, epoch):
    set_epoch(reader, epoch)
    return list(reader())


def test_passes_differ_and_come_again():
    def three():
        reader = shuffle(numbers(50), 50, seed=4)
        return [list(reader()) for _ in range(3)]

    passes = three()
    assert len({tuple(order) for order in passes}) == 3
    assert three() == passes
    assert list(shuffle(numbers(50), 50, seed=5)()) != passes[0]


def test_the_order_is_fixed_for_ever():
    assert list(shuffle(numbers(10), 10, seed=7)()) == [8, 4, 1, 6, 3, 2, 7, 5, 9, 0]
    assert list(shuffle(numbers(10), 4)()) == [0, 2, 1, 3, 6, 4, 5, 7, 9, 8]


def test_passes_are_counted_when_they_are_asked_for():
    reader = shuffle(numbers(30), 30)
    first, second = reader(), reader()
    ahead = list(second)
    assert list(first) == list(shuffle(numbers(30), 30)())
    assert ahead != list(shuffle(numbers(30), 30)())


@pytest.mark.parametrize("size", [0, 1])
def test_no_window_changes_nothing(size):
    assert list(shuffle(numbers(9), size)()) == list(range(9))
    assert list(shuffle(np_array(np.arange(9)), size)()) == list(range(9))


@pytest.mark.parametrize("size", [-1, 1.5, "9"])
def test_a_bad_window_is_refused_early(size):
    with pytest.raises(ValueError, match="buf_size"):
        shuffle(numbers(9), size)


def test_batches_are_shuffled_as_wholes():
    for source in (np_array(np.arange(40)), numbers(40)):
        got = list(shuffle(batch(source, 4), 10)())
        assert got != sorted(got)
        assert sorted(got) == [list(range(i, i + 4)) for i in range(0, 40, 4)]


def test_what_it_gets_is_not_written_to():
    array = np.arange(100)
    list(shuffle(np_array(array), 10).blocks())
    assert array.tolist() == list(range(100))


def test_samples_of_any_kind_survive():
    samples = [None, (), (None,), np.arange(3), "", b"", {}]
    got = list(shuffle(lambda: iter(samples), 10)())
    assert sorted(map(id, got)) == sorted(map(id, samples))


class Counted:
    alive = most = 0

    def __init__(self):
        Counted.alive += 1
        Counted.most = max(Counted.most, Counted.alive)

    def __del__(self):
        Counted.alive -= 1


def test_one_window_is_held_and_no_more():
    for sample in shuffle(lambda: (Counted() for _ in range(100)), 20)():
        del sample
    assert Counted.most == 20
    assert Counted.alive == 0


def test_a_seed_that_is_no_number_is_refused_early():
    for seed in (None, "a", 1.5):
        with pytest.raises(ValueError, match="expected seed as a whole number, got"):
            shuffle(numbers(3), 2, seed=seed)
    assert list(shuffle(numbers(9), 5, seed=np.int64(3))()) == list(
        shuffle(numbers(9), 5, seed=3)()
    )

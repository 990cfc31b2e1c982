"""Batches: sizes, tails, the tuple rule, and never twice."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfeed.decorators import (
    as_batches,
    batch,
    buffered,
    chain,
    check_batch,
    firstn,
    is_batch,
    strict_batches,
)
from trainfeed.errors import SampleShapeError
from trainfeed.readers import BlockSource, RowForm, np_array


def numbers(n):
    return lambda: iter(range(n))


def test_ten_samples_by_four():
    assert list(map(len, batch(numbers(10), 4)())) == [4, 4, 2]
    assert list(map(len, batch(numbers(10), 4, drop_last=True)())) == [4, 4]
    assert list(map(len, batch(numbers(8), 4, True)())) == [4, 4]
    assert list(batch(numbers(0), 4)()) == []


@pytest.mark.parametrize("value", [0, None, False, ""])
def test_whatever_is_false_keeps_the_tail(value):
    assert list(map(len, batch(numbers(5), 4, drop_last=value)())) == [4, 1]


@pytest.mark.parametrize("size", [0, -1, 2.7, "3", None, True, float("nan"), float("inf")])
def test_a_bad_size_is_refused_early(size):
    with pytest.raises(ValueError, match="batch_size"):
        batch(numbers(10), size)


def test_whole_numbers_of_other_types_are_sizes():
    assert list(map(len, batch(numbers(4), np.int64(2))())) == [2, 2]
    assert list(map(len, batch(numbers(4), 2.0)())) == [2, 2]


def test_a_size_may_change_from_batch_to_batch():
    sizes = [1, 2, 3]
    for source in (numbers(7), np_array(np.arange(7))):
        reader = batch(source, lambda number: sizes[number % 3])
        assert list(reader()) == list(reader()) == [[0], [1, 2], [3, 4, 5], [6]]
    with pytest.raises(ValueError, match="size of batch 1"):
        list(batch(numbers(7), lambda number: 1 - number)())


def test_samples_stay_as_they_are():
    samples = [None, (1, 2), [3], np.arange(2)]
    (got,) = batch(lambda: iter(samples), 9)()
    assert all(a is b for a, b in zip(got, samples, strict=True))


@given(st.lists(st.integers(1, 9), max_size=8), st.integers(1, 12), st.booleans())
def test_blocks_are_cut_into_the_same_batches(lengths, size, drop_last):
    edges = np.cumsum([0, *lengths])
    parts = [np.arange(a, b) for a, b in itertools.pairwise(edges)]
    source = chain(*map(np_array, parts or [np.arange(0)]))
    expected = list(batch(numbers(int(edges[-1])), size, drop_last)())
    reader = batch(source, size, drop_last)
    assert list(reader()) == expected
    assert [block["value"].tolist() for block in reader.blocks()] == expected


def test_a_batch_inside_one_block_is_a_view():
    array = np.arange(100)
    for block in batch(np_array(array), 10).blocks():
        assert np.shares_memory(block["value"], array)


@pytest.mark.parametrize("source", [numbers(8), np_array(np.arange(8))])
def test_nothing_is_batched_twice(source):
    for reader in (batch(source, 2), buffered(batch(source, 2), 3), chain(batch(source, 2))):
        with pytest.raises(ValueError, match="batches already"):
            batch(reader, 2)
        assert list(as_batches(reader, 4)()) == list(batch(source, 2)())
    assert list(as_batches(source, 4)()) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_a_function_is_judged_by_what_it_gives():
    def batches():
        yield [(1, 2), (3, 4)]
        yield [(5, 6)]

    def samples():
        return iter([(1, 2), (3, 4), (5, 6)])

    assert list(as_batches(batches, 2)()) == list(batches())
    assert list(as_batches(samples, 2)()) == [[(1, 2), (3, 4)], [(5, 6)]]
    assert list(as_batches(numbers(0), 2)()) == []


@pytest.mark.parametrize("item", [[], [1], [[1, 1]], [(1,), [1]], (1, 2), ((1,), (2,)), None, "ab"])
def test_what_is_no_batch(item):
    assert not is_batch(item)


def test_a_batch_of_batches_is_drawn_as_it_goes():
    samples = as_batches(lambda: ((i,) for i in itertools.count()), 2)()
    assert next(samples) == [(0,), (1,)]


@pytest.mark.parametrize(
    "items",
    [
        [(1, 1, 1), (2, 2, 2), (3, 3, 3)],
        [([1, 1, 1],), ([2, 2, 2],), ([3, 3, 3],)],
        [],
    ],
)
def test_valid_batches_pass(items):
    check_batch(items)
    assert list(strict_batches(lambda: iter([items]))()) == [items]


def test_lists_in_place_of_tuples_are_refused_with_the_remedy():
    with pytest.raises(SampleShapeError) as caught:
        check_batch([[1, 1, 1], [2, 2, 2], [3, 3, 3]], 4)
    assert str(caught.value) == (
        "batch 4, sample 0: expected a tuple, got list; write ([1, 1, 1],) for a sample of one"
        " column, or a tuple of its columns"
    )


@pytest.mark.parametrize("items", [((1,),), [(1, 2), (1,)], [(1,), 2], 5, None])
def test_invalid_batches_are_refused(items):
    with pytest.raises(SampleShapeError, match="batch 0"):
        list(strict_batches(lambda: iter([items]))())


def test_strict_batching_refuses_bare_samples():
    with pytest.raises(SampleShapeError, match="expected a tuple, got int"):
        list(batch(numbers(3), 2, strict=True)())
    assert list(batch(lambda: iter([(1,)]), 2, strict=True)()) == [[(1,)]]


def test_the_first_batches_are_a_count_of_batches():
    reader = firstn(batch(np_array(np.arange(9)), 4), 1)
    assert list(reader()) == [[0, 1, 2, 3]]
    assert [block["value"].tolist() for block in reader.blocks()] == [[0, 1, 2, 3]]


def test_blocks_of_tuples_keep_the_rule_by_themselves_and_others_break_it():
    data = {"x": np.arange(4), "y": np.arange(4)}
    source = BlockSource(lambda: iter([data]), form=RowForm.TUPLE)
    for reader in (batch(source, 3, strict=True), strict_batches(batch(source, 3))):
        assert [len(block["x"]) for block in reader.blocks()] == [3, 1]
        assert [is_batch(items) for items in reader()] == [True, True]
    for source in (np_array([1, 2]), BlockSource(lambda: iter([data]))):
        for reader in (batch(source, 3, strict=True), strict_batches(batch(source, 3))):
            with pytest.raises(SampleShapeError, match="expected a tuple"):
                list(reader())

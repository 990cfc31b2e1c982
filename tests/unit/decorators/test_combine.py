"""map_readers, chain and compose, and the readers that they refuse."""

import contextlib
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfeed.decorators import (
    ComposeNotAligned,
    Fake,
    batch,
    chain,
    compose,
    feed,
    firstn,
    map_blocks,
    map_readers,
    shuffle,
)
from trainfeed.errors import LoaderError
from trainfeed.readers import BlockSource, RowForm, np_array, num_rows


def numbers(n):
    return lambda: iter(range(n))


def endless():
    return itertools.count()


def test_mapping_ends_with_the_shortest_reader():
    reader = map_readers(lambda a, b: a + b, numbers(3), endless)
    assert list(reader()) == [0, 2, 4]
    assert list(reader()) == [0, 2, 4]


def test_a_stop_iteration_of_the_function_does_not_pass_for_the_end():
    def stop(_):
        raise StopIteration

    with pytest.raises(RuntimeError, match="StopIteration"):
        list(map_readers(stop, numbers(3))())


def test_composing_flattens_tuples_and_nothing_else():
    reader = compose(lambda: iter([(1, 2)]), lambda: iter([3]), lambda: iter([(4, 5)]))
    assert list(reader()) == [(1, 2, 3, 4, 5)]
    assert list(compose(lambda: iter([[1, 2]]), lambda: iter([{"a": 1}]))()) == [([1, 2], {"a": 1})]


def test_none_is_a_sample():
    assert list(compose(lambda: iter([None, 1]), numbers(2))()) == [(None, 0), (1, 1)]


def test_bare_arrays_are_samples():
    array = np.arange(3)
    ((left, right),) = compose(lambda: iter([array]), lambda: iter([array]))()
    assert left is array
    assert right is array


@pytest.mark.parametrize("lengths", [(3, 2), (2, 3), (3, 3, 2), (0, 1)])
def test_readers_of_other_lengths_are_told_after_the_aligned_part(lengths):
    samples = compose(*map(numbers, lengths))()
    got = []
    with pytest.raises(ComposeNotAligned, match=f"after {min(lengths)} samples") as caught:
        got.extend(samples)
    assert len(got) == 0 or got[0] == (0,) * len(lengths)
    assert isinstance(caught.value, ValueError)


def test_the_aligned_part_arrives_before_the_error():
    samples = compose(numbers(2), numbers(5))()
    assert list(itertools.islice(samples, 2)) == [(0, 0), (1, 1)]
    with pytest.raises(ComposeNotAligned):
        next(samples)


def test_without_the_check_the_shortest_ends_it():
    assert list(compose(numbers(2), endless, check_alignment=False)()) == [(0, 0), (1, 1)]
    with pytest.raises(ComposeNotAligned):
        list(compose(numbers(2), endless)())


def test_an_unknown_keyword_is_refused():
    with pytest.raises(TypeError):
        compose(numbers(2), check_aligment=False)


@pytest.mark.parametrize("decorate", [compose, lambda *r: map_readers(max, *r)])
def test_no_reader_is_refused(decorate):
    with pytest.raises(ValueError, match="at least one reader"):
        decorate()


def test_chaining_calls_a_reader_when_its_turn_comes():
    called = []

    def spied(name):
        def read():
            called.append(name)
            return iter([name])

        return read

    samples = chain(spied("a"), spied("b"))()
    assert not called
    assert next(samples) == "a"
    assert called == ["a"]
    assert list(samples) == ["b"]


def test_chaining_is_associative_and_nothing_is_its_neutral_element():
    a, b, c = numbers(2), numbers(0), numbers(3)
    left, right = chain(chain(a, b), c), chain(a, chain(b, c))
    assert list(left()) == list(right()) == [0, 1, 0, 1, 2]
    assert list(chain()()) == []


def test_chained_blocks_stay_blocks():
    reader = chain(np_array([1, 2]), np_array([3]))
    assert [block["value"].tolist() for block in reader.blocks()] == [[1, 2], [3]]
    assert list(reader()) == [1, 2, 3]
    assert not hasattr(chain(np_array([1]), numbers(1)), "blocks")


def test_blocks_are_mapped_whole_and_those_without_rows_left_out():
    reader = map_blocks(lambda b: {"value": b["value"][b["value"] > 1]}, np_array([1, 2, 3]))
    assert list(reader()) == [2, 3]
    nothing = map_blocks(lambda b: {"value": b["value"][:0]}, np_array([1]))
    assert list(nothing.blocks()) == []
    with pytest.raises(ValueError, match="gives blocks"):
        map_blocks(lambda b: b, numbers(3))


@given(
    st.lists(st.integers(1, 5), max_size=5),
    st.lists(st.integers(1, 5), max_size=5),
    st.booleans(),
)
def test_composed_blocks_are_the_composed_samples(one, other, check):
    def pairs(lengths):
        starts = itertools.accumulate(lengths, initial=0)
        parts = [np.arange(a, a + n) for a, n in zip(starts, lengths, strict=False)]
        return BlockSource(lambda: iter([{"a": p, "b": -p} for p in parts]), form=RowForm.TUPLE)

    def outcome(reader):
        got = []
        try:
            got.extend(collected(reader(), got))
        except ComposeNotAligned as error:
            return got, str(error)
        return got, None

    def collected(samples, got):
        for sample in samples:
            got.append(sample)
        return []

    readers = [pairs(one), np_array(np.arange(sum(other))), pairs(other)]
    fast = compose(*readers, check_alignment=check)
    slow = compose(*(reader.__call__ for reader in readers), check_alignment=check)
    assert not hasattr(slow, "blocks")
    assert outcome(fast) == outcome(slow)
    rest = []
    with contextlib.suppress(ComposeNotAligned):
        rest.extend(fast.blocks())
    assert all(list(block) == ["0", "1", "2", "3", "4"] for block in rest)


def test_composed_blocks_are_views_and_feed_by_column():
    images, labels = np.arange(40).reshape(20, 2), np.arange(20)
    reader = compose(np_array(images), np_array(labels))
    for block in batch(reader, 4).blocks():
        assert np.shares_memory(block["0"], images)
        assert np.shares_memory(block["1"], labels)
    fed = list(feed(batch(reader, 8), {"image": 0, "label": 1})())
    assert [columns["label"].tolist() for columns in fed] == [
        list(range(8)),
        list(range(8, 16)),
        list(range(16, 20)),
    ]


def test_only_columns_are_composed_as_blocks():
    mapping = BlockSource(lambda: iter([{"x": np.arange(3)}]))
    batches = batch(np_array(np.arange(3)), 1)
    for reader in (compose(mapping, np_array(np.arange(3))), compose(batches, batches)):
        assert not hasattr(reader, "blocks")
    assert list(compose(mapping, np_array(np.arange(3)))()) == [({"x": i}, i) for i in range(3)]
    assert list(compose(batches, batches)()) == [([i], [i]) for i in range(3)]


def test_an_absent_value_of_a_composed_block_is_none():
    masked = BlockSource(
        lambda: iter([{"x": np.ma.MaskedArray([1, 2], [False, True])}]), form=RowForm.VALUE
    )
    assert list(compose(masked, np_array([3, 4]))()) == [(1, 3), (None, 4)]


@pytest.mark.parametrize("n", [0, 1, 5, 3000])
def test_fake_of_blocks_gives_blocks(n):
    source = BlockSource(
        lambda: iter([{"x": np.array([7, 8]), "y": np.ma.MaskedArray([1, 2], [True, False])}])
    )
    reader = Fake()(source, n)
    assert sum(map(num_rows, reader.blocks())) == n
    assert list(reader()) == [{"x": 7, "y": None}] * n
    batches = Fake()(batch(np_array([1, 2, 3]), 2), n)
    assert [block["value"].tolist() for block in batches.blocks()] == [[1, 2]] * n
    with pytest.raises(LoaderError, match="at least one sample"):
        list(Fake()(np_array([]), 3).blocks())


def test_fake_repeats_the_first_sample():
    drawn = []

    def read():
        for i in range(5):
            drawn.append(i)
            yield i

    reader = Fake()(read, 3)
    assert list(reader()) == list(reader()) == [0, 0, 0]
    assert drawn == [0]
    assert list(Fake()(read, 0)()) == []


def test_fake_says_that_there_is_nothing_to_repeat():
    with pytest.raises(LoaderError, match="at least one sample"):
        list(Fake()(numbers(0), 3)())


@pytest.mark.parametrize("n", [0, 1, 3, 9])
def test_firstn_draws_no_sample_more(n):
    drawn = []

    def read():
        for i in range(5):
            drawn.append(i)
            yield i

    assert list(firstn(read, n)()) == list(range(min(n, 5)))
    assert drawn == list(range(min(n, 5)))


@pytest.mark.parametrize("n", [-1, 2.5, "3", None, True])
def test_firstn_refuses_what_is_no_count(n):
    with pytest.raises(ValueError, match="expected n as a whole number from 0 on"):
        firstn(numbers(3), n)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 9])
def test_firstn_of_blocks_cuts_the_last_one(n):
    source = chain(np_array([1, 2]), np_array([3, 4]))
    reader = firstn(source, n)
    assert list(reader()) == [1, 2, 3, 4][:n]
    assert sum(len(block["value"]) for block in reader.blocks()) == min(n, 4)


def test_epochs_reach_readers_below():
    reader = chain(shuffle(numbers(20), 20), numbers(1))
    first, second = list(reader()), list(reader())
    assert first != second
    reader.set_epoch(0)
    assert list(reader()) == first

"""Every pipeline goes on from every position: what comes before is read again and dropped."""

import functools
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainfeed.decorators import (
    Fake,
    as_batches,
    batch,
    buffered,
    cache,
    chain,
    compose,
    feed,
    firstn,
    map_blocks,
    map_readers,
    multiprocess_reader,
    resumable,
    shuffle,
    strict_batches,
    xmap_readers,
)
from trainfeed.errors import ReaderEndedError
from trainfeed.readers import BlockSource, SampleSource, np_array


def numbers(n):
    return lambda: iter(range(n))


def cut_blocks(lengths):
    """A reader of blocks that cannot begin behind the first one."""
    edges = np.cumsum([0, *lengths]).tolist()
    parts = [np.arange(a, b) for a, b in itertools.pairwise(edges)]
    return BlockSource(lambda: iter([{"value": part} for part in parts]))


def tens(number):
    return 1 + number % 3


def double(sample):
    return sample, sample


def odd(block):
    return {name: column[::2] for name, column in block.items()}


def is_batched(reader):
    return getattr(reader, "batched", False)


def gives_blocks(reader):
    return hasattr(reader, "blocks") and not is_batched(reader)


# From readers, a number and a seed to a reader; each call makes a new one.
DECORATORS = {
    "map": lambda r, *_: map_readers(double, r),
    "map two": lambda r, n, *_: map_readers(lambda a, b: (a, b), r, numbers(3 * n)),
    "map blocks": lambda r, *_: map_blocks(odd, r) if gives_blocks(r) else r,
    "chain": lambda r, n, *_: chain(r, np_array(np.arange(n)), r),
    "chain samples": lambda r, n, *_: chain(numbers(n), r, numbers(2)),
    "compose": lambda r, n, *_: compose(numbers(2 * n), r, check_alignment=False),
    "shuffle": lambda r, n, s: shuffle(r, n, seed=s),
    "batch": lambda r, n, s: r if is_batched(r) else batch(r, 1 + n, drop_last=s % 2),
    "batch by number": lambda r, *_: r if is_batched(r) else batch(r, tens),
    "as batches": lambda r, n, *_: as_batches(r, 1 + n),
    "firstn": lambda r, n, *_: firstn(r, 2 * n),
    "cache": lambda r, *_: cache(r),
    "buffered": lambda r, n, *_: buffered(r, n),
    "xmap": lambda r, n, *_: xmap_readers(double, r, 1 + n % 2, 1 + n, order=True),
    "fake": lambda r, n, *_: Fake()(chain(r, numbers(1)), n),
}
SOURCES = {
    "function": numbers,
    "array": lambda n: np_array(np.arange(n)),
    "blocks": lambda n: cut_blocks([n, 1, n]),
}


def plain(sample):
    if isinstance(sample, list | tuple):
        return type(sample)(map(plain, sample))
    if isinstance(sample, dict):
        return {name: plain(value) for name, value in sample.items()}
    return sample.tolist() if hasattr(sample, "tolist") else sample


def run(samples):
    return list(map(plain, samples))


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(sorted(SOURCES)),
    st.integers(0, 9),
    st.lists(
        st.tuples(st.sampled_from(sorted(DECORATORS)), st.integers(0, 5), st.integers(0, 3)),
        max_size=4,
    ),
    st.integers(0, 2),
)
def test_the_rest_from_every_place_is_the_rest_of_the_whole(source, n, decorators, epoch):
    def make():
        reader = SOURCES[source](n)
        for name, number, seed in decorators:
            reader = DECORATORS[name](reader, number, seed)
        return resumable(reader)

    def passes(position):
        reader = make()
        reader.load_state_dict({"epoch": epoch, "position": position})
        return [run(reader()) for _ in range(2)]

    whole, following = passes(0)
    for position in range(len(whole) + 1):
        assert passes(position) == [whole[position:], following]
    with pytest.raises(ReaderEndedError, match="at least") as caught:
        passes(len(whole) + 1)
    assert caught.value.num_samples == len(whole)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 6), max_size=5),
    st.lists(
        st.tuples(
            st.sampled_from(["shuffle", "firstn", "cache", "buffered", "map blocks", "batch"]),
            st.integers(0, 5),
            st.integers(0, 3),
        ),
        max_size=3,
    ),
)
def test_blocks_go_on_where_samples_do(lengths, decorators):
    def make():
        reader = cut_blocks(lengths)
        for name, number, seed in decorators:
            reader = DECORATORS[name](reader, number, seed)
        return resumable(reader)

    whole = run(make()())
    for position in range(len(whole) + 1):
        reader = make()
        reader.load_state_dict({"epoch": 0, "position": position})
        blocks = [block["value"].tolist() for block in reader.blocks()]
        rest = blocks if reader.batched else [row for block in blocks for row in block]
        expected = (
            [[row["value"] for row in item] for item in whole]
            if reader.batched
            else [row["value"] for row in whole]
        )
        assert rest == expected[position:]
        assert reader.state_dict() == {"epoch": 1, "position": 0}


class Drawn:
    """A reader that notes the places that it is asked for, and every sample that it gives."""

    def __init__(self, n):
        self.given = []
        self._n = n

    def __call__(self):
        return self.samples_from(0)

    def samples_from(self, position):
        for i in range(position, self._n):
            self.given.append(i)
            yield i


@pytest.mark.parametrize(
    ("decorate", "first"),
    [
        (lambda r: r, 60),
        (lambda r: map_readers(abs, r), 0),
        (lambda r: shuffle(r, 16), 0),
        (lambda r: feed(batch(firstn(r, 1000), 2), {"x": 0}), 0),
        (lambda r: strict_batches(batch(map_readers(lambda x: (x,), r), 3)), 0),
    ],
)
def test_what_comes_before_is_not_read_where_the_reader_itself_can_skip_it(decorate, first):
    source = Drawn(1000)
    reader = resumable(decorate(source))
    reader.load_state_dict({"epoch": 0, "position": 60})
    samples = reader()
    next(samples, None)
    samples.close()
    assert min(source.given) == first


def test_blocks_that_can_skip_are_not_read_either():
    asked = []

    def blocks_from(position):
        asked.append(position)
        yield {"value": np.arange(position, 9)}

    reader = resumable(BlockSource(lambda: blocks_from(0), blocks_from=blocks_from))
    reader.load_state_dict({"epoch": 0, "position": 6})
    assert [block["value"].tolist() for block in reader.blocks()] == [[6, 7, 8]]
    assert asked == [6]


def test_a_cache_reads_all_wherever_a_pass_begins():
    source = Drawn(100)
    reader = resumable(cache(source))
    reader.load_state_dict({"epoch": 3, "position": 60})
    assert list(reader()) == list(range(60, 100))
    assert list(reader()) == source.given == list(range(100))


def test_a_process_goes_on_too():
    reader = resumable(multiprocess_reader([shuffle(np_array(np.arange(30)), 7)]))
    expected = [run(shuffle(np_array(np.arange(30)), 7)())]
    reader.load_state_dict({"epoch": 0, "position": 11})
    assert run(reader()) == expected[0][11:]
    reader.load_state_dict({"epoch": 0, "position": 31})
    with pytest.raises(ReaderEndedError, match="the reader has 30") as caught:
        list(reader())
    assert caught.value.num_samples == 30


@pytest.mark.parametrize(
    "decorate",
    [
        lambda r: xmap_readers(abs, r, 2, 2),
        lambda r: multiprocess_reader([r, r]),
        lambda r: multiprocess_reader([batch(r, 2), batch(np_array([2]), 2)]),
        lambda r: buffered(batch(cache(xmap_readers(abs, r, 2, 2)), 3), 2),
    ],
)
def test_samples_that_come_as_they_come_cannot_be_gone_on_with(decorate):
    with pytest.raises(ValueError, match="gives samples as they come"):
        resumable(decorate(numbers(3)))


def test_one_worker_keeps_the_order():
    assert list(resumable(xmap_readers(abs, numbers(3), 1, 2))()) == [0, 1, 2]
    assert list(resumable(multiprocess_reader([numbers(3)]))()) == [0, 1, 2]


def test_a_reader_that_has_got_shorter_is_told():
    reader = resumable(batch(numbers(10), 4))
    reader.load_state_dict({"epoch": 0, "position": 4})
    with pytest.raises(ReaderEndedError, match=r"at least 4 samples .* the reader has 3"):
        list(reader())


def test_a_reader_that_is_there_twice_has_an_order_for_each_time():
    def make():
        reader = shuffle(numbers(8), 8)
        return resumable(chain(reader, reader))

    reader = make()
    passes = [list(reader()) for _ in range(2)]
    halves = [tuple(order[i : i + 8]) for order in passes for i in (0, 8)]
    assert len(set(halves)) == 4
    inner = shuffle(numbers(8), 8)
    assert list(itertools.chain(*(inner() for _ in range(4)))) == passes[0] + passes[1]
    other = make()
    other.load_state_dict({"epoch": 1, "position": 11})
    assert list(other()) == passes[1][11:]
    plainly = chain(inner, inner)
    plainly.set_epoch(1)
    assert list(plainly()) == passes[1]


def test_what_is_kept_has_one_order_in_every_process():
    def make():
        return resumable(cache(shuffle(numbers(9), 9)))

    reader = make()
    first, second = list(reader()), list(reader())
    assert first == second
    other = make()
    other.load_state_dict({"epoch": 1, "position": 4})
    assert list(other()) == second[4:]
    assert list(other()) == first


def test_the_state_is_that_of_the_pass_that_was_begun_last():
    reader = resumable(numbers(9))
    old, new = reader(), reader()
    list(itertools.islice(new, 4))
    list(itertools.islice(old, 7))
    assert reader.state_dict() == {"epoch": 1, "position": 4}


def test_an_epoch_begins_at_its_beginning():
    reader = resumable(shuffle(numbers(9), 9))
    whole = [list(reader()) for _ in range(2)]
    reader.load_state_dict({"epoch": 0, "position": 5})
    reader.set_epoch(1)
    assert reader.state_dict() == {"epoch": 1, "position": 0}
    assert list(reader()) == whole[1]


def test_readers_of_ones_own_hear_of_passes_and_places():
    class Own(SampleSource):
        epoch = None

        def set_epoch(self, epoch):
            self.epoch = epoch

    own = Own(lambda position: iter(range(position, 9)))
    for reader in (resumable(buffered(own, 2)), resumable(own)):
        own.epoch = None
        reader.load_state_dict({"epoch": 7, "position": 6})
        assert list(reader()) == [6, 7, 8]
        assert own.epoch == 7


def test_any_reader_of_blocks_will_do():
    class Own:
        form = cut_blocks([1]).form

        def __init__(self, *, batched):
            self.batched = batched

        def __call__(self):
            raise AssertionError

        def blocks(self):
            return cut_blocks([3, 4, 5]).blocks()

    for batched, position, expected in ((False, 5, range(5, 12)), (True, 2, range(7, 12))):
        reader = resumable(
            firstn(Own(batched=batched), 99) if batched else shuffle(Own(batched=batched), 0)
        )
        reader.load_state_dict({"epoch": 0, "position": position})
        rows = [row for block in reader.blocks() for row in block["value"].tolist()]
        assert rows == list(expected)


def test_endless_readers_go_on():
    reader = resumable(batch(shuffle(itertools.count, 10), 4))
    whole = list(itertools.islice(reader(), 20))
    other = resumable(batch(shuffle(itertools.count, 10), 4))
    other.load_state_dict({"epoch": 0, "position": 13})
    assert list(itertools.islice(other(), 7)) == whole[13:]


def test_nothing_is_left_open_behind_a_place_that_is_not_there():
    closed = []

    def read():
        try:
            yield from range(3)
        finally:
            closed.append(True)

    for decorate in (
        functools.partial(shuffle, buf_size=2),
        functools.partial(batch, batch_size=2),
        chain,
        lambda r: compose(r, r),
    ):
        reader = resumable(decorate(read))
        reader.load_state_dict({"epoch": 0, "position": 9})
        with pytest.raises(ReaderEndedError):
            list(reader())
        assert closed
        closed.clear()

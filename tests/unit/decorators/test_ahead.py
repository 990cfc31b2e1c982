"""buffered: how far ahead, in which thread, and how it ends."""

import gc
import itertools
import threading
import traceback

import numpy as np
import pytest

from trainfeed.decorators import batch, buffered, chain
from trainfeed.readers import np_array

WAIT_S = 30


class Counted:
    """An endless reader that counts what was drawn, and can be waited for."""

    def __init__(self):
        self.drawn = 0
        self._changed = threading.Condition()

    def __call__(self):
        for i in itertools.count():
            with self._changed:
                self.drawn += 1
                self._changed.notify_all()
            yield i

    def wait_for(self, drawn):
        with self._changed:
            assert self._changed.wait_for(lambda: self.drawn >= drawn, WAIT_S)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_the_samples_are_the_same_ones(size):
    samples = [None, "", (), (1, 2), np.arange(3), np.array(True)]
    got = list(buffered(lambda: iter(samples), size)())
    assert all(a is b for a, b in zip(got, samples, strict=True))


@pytest.mark.parametrize("size", [1, 2, 5, 64])
def test_exactly_size_samples_are_ahead(size):
    source = Counted()
    samples = buffered(source, size)()
    for delivered in range(1, 200):
        next(samples)
        assert source.drawn <= delivered + size
    # Not fewer either: it goes on until a chunk that the consumer works through ends.
    source.wait_for(200 + size // 2)
    samples.close()
    assert source.drawn <= 199 + size + 1


def test_reading_goes_on_while_the_consumer_is_busy():
    source = Counted()
    samples = buffered(source, 3)()
    next(samples)
    # The consumer does nothing here; only another thread can draw more.
    source.wait_for(4)
    samples.close()


def test_nothing_starts_before_the_first_sample_is_asked_for():
    source = Counted()
    before = threading.active_count()
    samples = buffered(source, 3)()
    assert (threading.active_count(), source.drawn) == (before, 0)
    samples.close()


def test_size_0_reads_nothing_ahead():
    source = Counted()
    samples = buffered(source, 0)()
    assert [next(samples), next(samples)] == [0, 1]
    assert source.drawn == 2
    assert not hasattr(buffered(source, 0), "blocks")
    assert [b["value"].tolist() for b in buffered(np_array([1]), 0).blocks()] == [[1]]


@pytest.mark.parametrize("size", [-1, 1.5, None])
def test_a_bad_size_is_refused_early(size):
    with pytest.raises(ValueError, match="expected size"):
        buffered(Counted(), size)


@pytest.mark.parametrize("num_good", [0, 1, 5])
def test_an_exception_arrives_as_it_is_after_the_good_samples(num_good):
    class OwnError(Exception):
        pass

    def read():
        yield from range(num_good)
        raise OwnError("of the reader")

    got = []
    with pytest.raises(OwnError, match="of the reader") as caught:
        collect(buffered(read, 2)(), got)
    assert got == list(range(num_good))
    assert "in read" in "".join(traceback.format_exception(caught.value))


def collect(samples, got):
    for sample in samples:
        got.append(sample)


def test_a_reader_that_cannot_be_called_is_the_consumers_error():
    def read():
        raise OSError("no such thing")

    with pytest.raises(OSError, match="no such thing"):
        list(buffered(read, 2)())


@pytest.mark.parametrize("leave", ["close", "delete", "collect", "raise"])
def test_leaving_early_ends_the_thread_and_the_reader(leave):
    ended = threading.Event()

    def read():
        try:
            yield from itertools.count()
        finally:
            ended.set()

    samples = buffered(read, 2)()
    next(samples)
    if leave == "close":
        samples.close()
    elif leave == "delete":
        del samples
    elif leave == "collect":
        cycle = [samples]
        cycle.append(cycle)
        del samples, cycle
        gc.collect()
    else:
        with pytest.raises(KeyboardInterrupt):
            samples.throw(KeyboardInterrupt)
    assert ended.wait(WAIT_S)


def test_two_passes_at_once_are_independent():
    reader = buffered(lambda: iter(range(100)), 3)
    assert list(zip(reader(), reader(), strict=True)) == [(i, i) for i in range(100)]


def test_many_left_passes_leave_nothing():
    for _ in range(100):
        for _sample in buffered(itertools.count, 2)():
            break


def test_stages_stack():
    reader = buffered(buffered(buffered(lambda: iter(range(50)), 3), 2), 1)
    assert list(reader()) == list(range(50))


def test_blocks_stay_blocks_and_count_their_rows():
    drawn = []

    source = chain(*[np_array(np.full(10, n)) for n in range(20)])
    counted = MapCount(source, drawn)
    blocks = buffered(counted, 25).blocks()
    next(blocks)
    # 10 rows delivered; a block is drawn while there is room for a row of 25.
    assert len(drawn) <= 1 + 3
    blocks.close()
    assert list(buffered(source, 25)()) == [n for n in range(20) for _ in range(10)]


class MapCount:
    """Counts the blocks that are drawn of another reader."""

    batched = False

    def __init__(self, source, drawn):
        self.form = source.form
        self._source = source
        self._drawn = drawn

    def __call__(self):
        return self._source()

    def blocks(self):
        for block in self._source.blocks():
            self._drawn.append(len(self._drawn))
            yield block


def test_batches_of_blocks_count_as_one_each():
    reader = buffered(batch(np_array(np.arange(100)), 10), 2)
    assert [block["value"].tolist() for block in reader.blocks()] == list(reader())
    assert len(list(reader())) == 10


def test_nothing_is_drawn_for_a_consumer_that_has_left(monkeypatch):
    source = Counted()
    proceed = threading.Event()

    def read():
        for i in source():
            if i == 5:
                assert proceed.wait(WAIT_S)
            yield i

    def end_threads(threads):
        proceed.set()
        for thread in threads:
            thread.join(WAIT_S)

    monkeypatch.setattr("trainfeed.readers.ahead.threads.end_threads", end_threads)
    samples = buffered(read, 50)()
    next(samples)
    source.wait_for(6)
    samples.close()
    assert source.drawn == 6

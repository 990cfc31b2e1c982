"""cache: the first pass reads all samples once, within bounds; they go with the reader."""

import functools
import itertools
import mmap
import os
import random
import threading

import numpy as np
import pytest

from tests.unit.forks import in_a_fork
from trainfeed.decorators import (
    batch,
    buffered,
    cache,
    chain,
    multiprocess_reader,
    set_epoch,
    shuffle,
)
from trainfeed.errors import MemoryLimitError
from trainfeed.readers import np_array


class Counted:
    def __init__(self, samples):
        self.samples = samples
        self.passes = 0

    def __call__(self):
        self.passes += 1
        yield from self.samples


def test_nothing_is_read_before_the_first_pass_and_only_once():
    source = Counted([None, (1, 2), "x"])
    reader = cache(source)
    assert source.passes == 0
    assert list(reader()) == list(reader()) == [None, (1, 2), "x"]
    assert source.passes == 1


class CountedInForks:
    """A reader of random numbers that counts its passes in memory that forks share."""

    def __init__(self, num_samples=10):
        self._num_samples = num_samples
        self._passes = mmap.mmap(-1, mmap.PAGESIZE)

    @property
    def passes(self):
        return int.from_bytes(self._passes[:8])

    def __call__(self):
        self._passes[:8] = (self.passes + 1).to_bytes(8)
        for _ in range(self._num_samples):
            yield random.random()


def test_a_pass_that_was_left_has_read_all():
    source = CountedInForks()
    reader = cache(source)
    first = next(iter(reader()))
    kept = list(reader())
    assert kept[0] == first
    assert list(reader()) == kept
    assert source.passes == 1


def test_first_passes_that_interleave_are_one():
    source = CountedInForks()
    reader = cache(source)
    pairs = list(zip(reader(), reader(), strict=True))
    assert all(one == two for one, two in pairs)
    assert len(set(pairs)) == 10
    assert source.passes == 1


def test_threads_that_come_first_together_read_once():
    source = CountedInForks(1000)
    reader, got = cache(source), []
    start = threading.Barrier(4)

    def run():
        start.wait()
        got.append(list(reader()))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [got[0]] * 4
    assert source.passes == 1


@pytest.mark.parametrize("decorate", [lambda r: r, lambda r: buffered(batch(r, 3), 2)])
def test_processes_are_forked_when_all_was_read(decorate):
    source = CountedInForks()
    reader = cache(source)
    both = multiprocess_reader([decorate(reader), decorate(reader)])
    passes = [sorted(both()) for _ in range(2)]
    assert passes == [sorted(list(decorate(reader)()) * 2)] * 2
    assert source.passes == 1


def test_a_fork_that_reads_first_reads_for_itself():
    source = CountedInForks(1000)
    reader = cache(source)

    def hidden():
        yield from reader()

    both = multiprocess_reader([hidden, hidden])
    assert len(list(both())) == 2000
    assert source.passes == 2
    kept = list(reader())
    # Forks have what their parent has read.
    assert sorted(both()) == sorted(kept * 2)
    assert source.passes == 3


def test_a_fork_before_the_first_pass_changes_nothing_in_the_parent():
    samples = [np.zeros(100) for _ in range(10)]
    reader = cache(lambda: iter(samples))
    assert in_a_fork(lambda: None) == 0
    for _ in range(2):
        assert all(got is sample for got, sample in zip(reader(), samples, strict=True))


def test_blocks_that_a_fork_has_read_are_read_by_its_parent():
    reader = cache(np_array(np.arange(5.0)))
    assert in_a_fork(lambda: list(reader.blocks())) == 0
    (block,) = reader.blocks()
    assert block["value"].tolist() == [0, 1, 2, 3, 4]


def test_a_fork_that_is_killed_while_it_reads_leaves_nothing_half():
    started = mmap.mmap(-1, mmap.PAGESIZE)

    def read():
        for i in range(100_000):
            if i == 90_000 and not started[0]:
                started[0] = 1
                os._exit(7)
            yield i

    reader = cache(read)
    assert in_a_fork(lambda: list(reader())) == 7
    assert in_a_fork(lambda: sum(reader()) == sum(range(100_000)) or os._exit(9)) == 0
    assert list(reader()) == list(range(100_000))


def test_all_passes_are_pass_0_whichever_is_asked_for_first():
    reader = cache(shuffle(lambda: iter(range(20)), 20))
    set_epoch(reader, 5)
    assert list(reader()) == list(shuffle(lambda: iter(range(20)), 20)())


def test_a_pass_that_failed_does_not_count():
    def read():
        yield 1
        if fail:
            raise OSError("once")
        yield 2

    reader, fail = cache(read), [True]
    with pytest.raises(OSError, match="once"):
        list(reader())
    fail.clear()
    assert list(reader()) == list(reader()) == [1, 2]


@pytest.mark.parametrize("decorate", [lambda r: r, lambda r: multiprocess_reader([r])])
def test_what_came_before_an_error_is_delivered_before_it(decorate):
    def read():
        yield from range(3)
        raise ZeroDivisionError("of the reader")

    reader, got = decorate(cache(read)), []
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="of the reader"):
            got.extend(into(got, reader()))
    assert got == [0, 1, 2] * 2


def into(got, samples):
    for sample in samples:
        got.append(sample)
    return []


def test_what_a_failed_fork_has_left_is_not_read():
    failing = mmap.mmap(-1, mmap.PAGESIZE)
    failing[0] = 1

    def read():
        yield from range(3)
        if failing[0]:
            raise ZeroDivisionError
        yield 3

    reader = cache(read)
    assert in_a_fork(lambda: list(reader())) == 1
    failing[0] = 0
    assert in_a_fork(lambda: list(reader()) == [0, 1, 2, 3] or os._exit(9)) == 0
    assert list(reader()) == [0, 1, 2, 3]


def test_no_sample_is_a_whole_pass():
    source = Counted([])
    reader = cache(source)
    assert list(reader()) == list(reader()) == []
    assert source.passes == 1


def test_every_pass_gives_the_same_objects():
    samples = [(i, np.full(100, i), str(i)) for i in range(100)]
    source = Counted(samples)
    reader = cache(source)
    for _ in range(3):
        assert all(got is sample for got, sample in zip(reader(), samples, strict=True))
    assert source.passes == 1


def test_memory_holds_what_it_may_and_no_more():
    samples = [np.zeros(1000) for _ in range(10)]
    assert len(list(cache(lambda: iter(samples), max_bytes=81_000)())) == 10
    got = []
    with pytest.raises(MemoryLimitError, match="at most 79000 bytes of samples"):
        into(got, cache(lambda: iter(samples), max_bytes=79_000)())
    assert got == []


@pytest.mark.parametrize("kept", [{"x": [np.zeros(1000)]}, [(np.zeros(1000),)]])
def test_what_is_inside_a_sample_counts(kept):
    with pytest.raises(MemoryLimitError):
        list(cache(lambda: iter([kept]), max_bytes=8000)())


def test_without_a_limit_half_of_the_free_memory_is_one(monkeypatch):
    monkeypatch.setattr("trainfeed.decorators.select.available_bytes", lambda: 20_000)
    with pytest.raises(MemoryLimitError, match="at most 10000 bytes"):
        list(cache(itertools.count)())
    monkeypatch.setattr("trainfeed.decorators.select.available_bytes", lambda: None)
    assert list(cache(lambda: iter(range(1000)))()) == list(range(1000))


def test_a_reader_without_an_end_is_told_by_the_limit():
    reader = cache(itertools.count, max_bytes=1 << 20)
    with pytest.raises(MemoryLimitError, match="the reader may have no end"):
        next(iter(reader()))
    with pytest.raises(MemoryLimitError, match="at most 1048576 bytes"):
        list(multiprocess_reader([functools.partial(reader)])())
    with pytest.raises(MemoryLimitError, match="at most 1048576 bytes"):
        list(multiprocess_reader([cache(itertools.count, max_bytes=1 << 20)])())


def test_a_negative_limit_is_refused():
    with pytest.raises(ValueError, match="max_bytes"):
        cache(lambda: iter([]), max_bytes=-1)


def test_blocks_are_kept_as_blocks():
    source = chain(np_array(np.arange(5)), np_array(np.arange(3)))
    reader = cache(source)
    for _ in range(2):
        assert list(reader()) == [0, 1, 2, 3, 4, 0, 1, 2]
        assert [len(block["value"]) for block in reader.blocks()] == [5, 3]
    assert list(cache(batch(source, 6))()) == [[0, 1, 2, 3, 4, 0], [1, 2]]

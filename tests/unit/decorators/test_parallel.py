"""xmap_readers and multiprocess_reader: order, bounds, values, and random numbers."""

import collections
import gc
import itertools
import mmap
import multiprocessing
import os
import random
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

import numpy as np
import pytest

from trainfeed.decorators import (
    batch,
    buffered,
    chain,
    map_readers,
    multiprocess_reader,
    shuffle,
    xmap_readers,
)
from trainfeed.errors import LoaderError
from trainfeed.readers import np_array

WAIT_S = 30
WAYS = [False, True]


def numbers(n):
    return lambda: iter(range(n))


def square(x):
    return x * x


@pytest.mark.parametrize("use_processes", WAYS)
@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("n", [0, 1, 7, 300])
def test_order_is_kept_if_asked_for(use_processes, workers, n):
    reader = xmap_readers(square, numbers(n), workers, 4, True, use_processes=use_processes)
    assert list(reader()) == [i * i for i in range(n)]


@pytest.mark.parametrize("use_processes", WAYS)
def test_without_order_nothing_is_lost_or_doubled(use_processes):
    reader = xmap_readers(square, numbers(300), 3, 10, use_processes=use_processes)
    assert sorted(reader()) == sorted(reader()) == [i * i for i in range(300)]


def test_a_slow_sample_holds_up_the_order_and_nothing_else():
    release = threading.Event()

    def mapper(x):
        if x == 0:
            assert release.wait(WAIT_S)
        return x

    unordered = xmap_readers(mapper, numbers(10), 2, 8)()
    assert sorted(next(unordered) for _ in range(9)) == list(range(1, 10))
    release.set()
    assert list(unordered) == [0]


def test_in_order_nothing_overtakes_a_slow_sample():
    others = threading.Barrier(2)

    def mapper(x):
        # The first one is only done when the last one that may be ahead of it is.
        if x in (0, 9):
            others.wait(WAIT_S)
        return x

    assert list(xmap_readers(mapper, numbers(10), 2, 8, True)()) == list(range(10))


def test_workers_that_hang_are_waited_for_together(monkeypatch):
    monkeypatch.setattr("trainfeed.readers.ahead.threads._JOIN_S", 0.2)
    release, waits = threading.Event(), []
    samples = xmap_readers(lambda x: x or release.wait(WAIT_S), numbers(9), 5, 9, False)()
    join = threading.Thread.join
    with monkeypatch.context() as patch:
        patch.setattr(
            threading.Thread,
            "join",
            lambda thread, timeout_s: (waits.append(timeout_s), join(thread, timeout_s)),
        )
        next(samples)
        samples.close()
    release.set()
    assert len(waits) == 6
    assert waits == sorted(waits, reverse=True)
    assert max(waits) <= 0.2


def test_an_error_does_not_wait_long_for_workers_that_hang(monkeypatch):
    release, waits = threading.Event(), []
    join = threading.Thread.join
    monkeypatch.setattr(
        threading.Thread,
        "join",
        lambda thread, timeout_s=None: (waits.append(timeout_s), join(thread, 0.01)),
    )

    def hangs():
        yield from range(3)
        release.wait(WAIT_S)

    readers = [
        xmap_readers(lambda x: 1 // x if x < 2 else release.wait(WAIT_S), numbers(9), 2, 9),
        map_readers(lambda a, b: a // b, buffered(hangs, 9), numbers(3)),
    ]
    before = set(threading.enumerate())
    for reader in readers:
        with pytest.raises(ZeroDivisionError):
            list(reader())
    release.set()
    for thread in set(threading.enumerate()) - before:
        join(thread)
    assert waits
    assert max(waits) < 1


@pytest.mark.parametrize("order", WAYS)
def test_nobody_waits_busily(order):
    def mapper(x):
        threading.Event().wait(0.2)
        return x

    gc.disable()  # collecting what other tests have left would count as well
    try:
        before = time.process_time()
        assert sorted(xmap_readers(mapper, numbers(4), 2, 2, order)()) == list(range(4))
        # Busy waiting would take all of the 0.4 s.
        assert time.process_time() - before < 0.2
    finally:
        gc.enable()


def test_threads_work_at_once():
    meeting = threading.Barrier(3)

    def mapper(x):
        meeting.wait(WAIT_S)
        return x

    assert sorted(xmap_readers(mapper, numbers(6), 3, 1)()) == list(range(6))


def test_no_more_than_the_buffer_and_the_workers_is_ahead():
    drawn = itertools.count()
    last = [0]

    def read():
        for last[0] in drawn:
            yield last[0]

    samples = xmap_readers(square, read, 2, 3, True)()
    for delivered in range(1, 100):
        next(samples)
        assert last[0] + 1 - delivered <= 5
    samples.close()


def test_none_and_arrays_are_samples():
    samples = [None, "", np.arange(3), (), (1,)]
    for use_processes in WAYS:
        got = list(
            xmap_readers(
                lambda x: x, lambda: iter(samples), 2, 2, True, use_processes=use_processes
            )()
        )
        assert [type(x) for x in got] == [type(x) for x in samples]
        assert got[2].tolist() == [0, 1, 2]


@pytest.mark.parametrize("use_processes", WAYS)
@pytest.mark.parametrize("order", WAYS)
def test_an_exception_of_the_mapper_arrives_with_its_traceback(use_processes, order):
    def mapper(x):
        if x == 17:
            raise ZeroDivisionError("of the mapper")
        return x

    reader = xmap_readers(mapper, numbers(100), 3, 8, order, use_processes=use_processes)
    got = []
    with pytest.raises(ZeroDivisionError, match="of the mapper") as caught:
        collect(reader(), got)
    assert not order or got == list(range(17))
    assert 17 not in got
    assert "in mapper" in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("use_processes", WAYS)
@pytest.mark.parametrize("order", WAYS)
def test_an_exception_of_the_reader_arrives_after_what_it_gave(use_processes, order):
    def read():
        yield from range(20)
        raise KeyError("of the reader")

    got = []
    with pytest.raises(KeyError, match="of the reader"):
        collect(xmap_readers(square, read, 3, 8, order, use_processes=use_processes)(), got)
    assert sorted(got) == [i * i for i in range(20)]


def collect(samples, got):
    for sample in samples:
        got.append(sample)


@pytest.mark.parametrize(("workers", "size"), [(0, 1), (-1, 1), (1, -1), (1.5, 1), (1, 1.5)])
def test_bad_numbers_are_refused_early(workers, size):
    with pytest.raises(ValueError, match="expected"):
        xmap_readers(square, numbers(1), workers, size)


@pytest.mark.parametrize("use_processes", WAYS)
def test_workers_without_a_bound_are_as_far_ahead_as_they_can(use_processes):
    drawn = threading.Event()

    def read():
        yield from range(500)
        drawn.set()

    samples = xmap_readers(square, read, 2, 0, True, use_processes=use_processes)()
    assert next(samples) == 0
    assert drawn.wait(WAIT_S)
    assert list(samples) == [i * i for i in range(1, 500)]


@pytest.mark.parametrize("use_processes", WAYS)
def test_leaving_early_leaves_nothing(use_processes):
    for _ in range(3):
        for _sample in xmap_readers(square, itertools.count, 3, 5, use_processes=use_processes)():
            break


def test_a_mapper_that_cannot_be_pickled_runs_in_processes():
    secret = threading.Lock()

    def mapper(x):
        with secret:
            return x + 1

    assert list(xmap_readers(mapper, numbers(3), 1, 1, True, use_processes=True)()) == [1, 2, 3]


def test_a_result_that_cannot_be_pickled_is_told():
    reader = xmap_readers(lambda _: threading.Lock(), numbers(3), 1, 1, use_processes=True)
    with pytest.raises(TypeError, match="cannot pickle"):
        list(reader())


def test_every_reader_keeps_its_order():
    def tagged(tag, n):
        return lambda: iter([(tag, i) for i in range(n)])

    reader = multiprocess_reader([tagged("a", 50), tagged("b", 0), tagged("c", 300)])
    got = collections.defaultdict(list)
    for tag, i in reader():
        got[tag].append(i)
    assert got == {"a": list(range(50)), "c": list(range(300))}


@pytest.mark.parametrize("use_pipe", WAYS)
@pytest.mark.parametrize("size", [1, 2, 1000])
def test_samples_come_through_processes_as_they_were(use_pipe, size):
    samples = [
        None,
        "",
        (),
        (1, "two", 3.0),
        [1, (2,)],
        {"a": b"\0"},
        np.arange(6, dtype=">i2").reshape(2, 3),
        np.full((100, 200), 1.5),
        (np.zeros((0, 3)), np.float32(2)),
        np.asfortranarray(np.arange(90_000).reshape(300, 300)),
        np.array(["text"], dtype=object),
    ]
    got = list(multiprocess_reader([lambda: iter(samples)], use_pipe, size)())
    for a, b in zip(got, samples, strict=True):
        assert type(a) is type(b)
        assert repr(a) == repr(b)
    assert (got[6].dtype, got[9].sum()) == (np.dtype(">i2"), samples[9].sum())


def test_large_arrays_can_be_written_to_and_outlive_the_pass():
    reader = multiprocess_reader([lambda: iter(np.ones((4, 100, 100)))])
    got = list(reader())
    part = got[0][3:5]
    got[1][:] = 7
    del got
    assert part.sum() == 200


KEEPS_SAMPLES = """
import resource
import numpy as np
from trainfeed.decorators import multiprocess_reader

resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
arrays = (np.full(5_000, i) for i in range(1_000))
kept = list(multiprocess_reader([lambda: arrays], queue_size=2)())
assert [array[-1] for array in kept] == list(range(1_000))
kept[999][:] = 7
del kept[:500]
print(len(kept))
"""


def test_more_samples_may_be_kept_than_there_are_descriptors():
    done = subprocess.run(
        [sys.executable, "-c", KEEPS_SAMPLES],
        env={"PYTHONPATH": str(Path(__file__).parents[3] / "include")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("500\n", "")


def test_each_process_is_at_most_its_share_ahead():
    def read():
        for i in itertools.count():
            drawn[:8] = (i + 1).to_bytes(8)
            yield i

    drawn = mmap.mmap(-1, 8)
    samples = multiprocess_reader([read], queue_size=4)()
    for delivered in range(1, 300):
        next(samples)
        assert int.from_bytes(drawn[:8]) - delivered <= 4
    samples.close()


def test_processes_really_differ():
    reader = multiprocess_reader([lambda: iter([os.getpid()])] * 2)
    assert len({*reader(), os.getpid()}) == 3


def test_the_original_exception_arrives_after_the_good_samples():
    def read():
        yield 1
        yield 2
        raise FileNotFoundError(2, "No such file", "x")

    got = []
    with pytest.raises(FileNotFoundError) as caught:
        collect(multiprocess_reader([read])(), got)
    assert got == [1, 2]
    assert caught.value.filename == "x"
    assert "in read" in "".join(traceback.format_exception(caught.value))


def test_an_exception_that_cannot_travel_is_told():
    class LocalError(Exception):
        pass

    def read():
        yield 1
        raise LocalError("of a function")

    with pytest.raises(LoaderError, match="LocalError: of a function") as caught:
        list(multiprocess_reader([read])())
    assert "in read" in caught.value.__notes__[0]


def test_a_sample_that_cannot_be_pickled_is_told():
    with pytest.raises(TypeError, match="cannot pickle"):
        list(multiprocess_reader([lambda: iter([1, threading.Lock()])])())


@pytest.mark.parametrize("readers", [[], (), None, numbers(1)])
def test_no_reader_is_refused(readers):
    with pytest.raises(ValueError, match="at least one reader"):
        multiprocess_reader(readers)


@pytest.mark.parametrize("size", [-1, 2.5, None, "3"])
def test_a_bad_size_is_refused(size):
    with pytest.raises(ValueError, match="queue_size"):
        multiprocess_reader([numbers(1)], queue_size=size)


@pytest.mark.parametrize("arguments", [(True, 0), (100, False), (100, True), (0, True), (False, 1)])
def test_a_size_of_0_sets_no_bound_and_the_arguments_may_be_swapped(arguments):
    reader = multiprocess_reader([numbers(300), numbers(200)], *arguments)
    assert sorted(reader()) == sorted([*range(300), *range(200)])


def test_without_a_bound_a_process_reads_to_the_end_whatever_the_consumer_does():
    done = mmap.mmap(-1, mmap.PAGESIZE)
    read_all = multiprocessing.get_context("fork").Event()

    def read():
        for i in range(10_000):
            yield i
            done[0] = i == 9_999
        read_all.set()

    samples = multiprocess_reader([read], queue_size=0)()
    assert next(samples) == 0
    assert read_all.wait(WAIT_S)
    assert done[0]
    assert list(samples) == list(range(1, 10_000))


def test_processes_left_early_are_gone():
    samples = multiprocess_reader([itertools.count, itertools.count])()
    next(samples)
    samples.close()


def test_epochs_go_on_in_processes():
    reader = multiprocess_reader([shuffle(numbers(30), 30)])
    expected = shuffle(numbers(30), 30)
    for _ in range(3):
        assert list(reader()) == list(expected())


def test_blocks_travel_as_blocks():
    source = chain(np_array(np.arange(5)), np_array(np.arange(5, 9)))
    reader = multiprocess_reader([source])
    assert [block["value"].tolist() for block in reader.blocks()] == [[0, 1, 2, 3, 4], [5, 6, 7, 8]]
    assert list(reader()) == list(range(9))
    batched = multiprocess_reader([batch(source, 4)])
    assert list(batched()) == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]


def test_random_numbers_differ_between_processes_and_passes_and_come_again():
    def read():
        yield (random.random(), float(np.random.random()))  # noqa: NPY002 (as users do)

    def passes():
        random.seed(3)
        np.random.seed(3)  # noqa: NPY002
        reader = multiprocess_reader([read, read, read])
        return [sorted(reader()) for _ in range(3)]

    first = passes()
    assert len({value for drawn in first for value in drawn}) == 9
    assert passes() == first
    random.seed(3)
    np.random.seed(3)  # noqa: NPY002
    assert (random.random(), float(np.random.random())) in first[0]  # noqa: NPY002

"""Two at the same time: threads, a fork beside threads, a garbage collection in the middle."""

import collections
import os
import sys
import threading
from multiprocessing import popen_fork
from pathlib import Path

from tests.unit.forks import held_elsewhere, in_a_fork
from trainfeed.decorators import buffered, cache, shuffle, xmap_readers
from trainfeed.decorators.stage import Epochs
from trainfeed.readers.ahead.children import Child
from trainfeed.readers.ahead.threads import Channel


def test_a_fork_can_leave_a_pass_whose_thread_held_the_lock():
    samples = buffered(lambda: iter(range(10)), 20)()
    next(samples)
    channel = samples.gi_frame.f_locals["channel"]
    samples.gi_frame.f_locals["thread"].join()
    with held_elsewhere(channel._filled):
        assert in_a_fork(samples.close) == 0


def test_a_fork_that_leaves_a_pass_does_not_kill_the_workers_of_its_parent():
    samples = xmap_readers(abs, lambda: iter(range(200)), 2, 2, True, use_processes=True)()
    assert next(samples) == 0
    assert in_a_fork(samples.close) == 0
    assert list(samples) == list(range(1, 200))


class ClosingItems(collections.deque):
    """Items of a channel that a garbage collection closes while they are taken."""

    def popleft(self):
        self.close()
        return super().popleft()


def test_a_channel_that_is_closed_while_items_are_taken_gives_what_is_left():
    channel = Channel(10)
    channel._items = ClosingItems(range(5))
    channel._items.close = channel.close
    assert channel.take(3) == []


def test_a_child_is_waited_for_although_others_hold_its_pipe(monkeypatch):
    """A fork in another thread at the same moment has copies of all descriptors."""
    real, copies = os.pipe, []

    def pipe():
        ends = real()
        copies.append(os.dup(ends[1]))
        return ends

    with monkeypatch.context() as patch:
        patch.setattr(popen_fork.os, "pipe", pipe)
        child = Child(lambda connection: connection.recv(1))
    pid = child.pid
    child.close()
    is_left = Path(f"/proc/{pid}").exists()
    for copy in copies:
        os.close(copy)
    assert not is_left


class ToldLate:
    """A process that another thread has reaped, and will say so."""

    def __init__(self):
        self.codes = iter([None, None, -9])

    @property
    def exitcode(self):
        return next(self.codes)

    def join(self, timeout_s):
        pass


def test_how_a_child_has_ended_is_told_when_another_thread_reaps_it():
    child = Child(lambda _: None)
    real, child._process = child._process, ToldLate()
    assert "was killed by SIGKILL" in str(child.death())
    child.close()
    real.join()


def test_passes_that_start_at_the_same_time_have_numbers_of_their_own():
    """Another pass starts between any two steps of the interpreter."""
    epochs, numbers = Epochs(), []

    def other_pass():
        numbers.append(epochs.of(None))

    def trace(frame, event, _):
        if frame.f_code is not Epochs.of.__code__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            thread = threading.Thread(target=other_pass)
            thread.start()
            thread.join()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        numbers.append(epochs.of(None))
    finally:
        sys.settrace(before)
    assert len(numbers) > 2
    assert sorted(numbers) == list(range(len(numbers)))


def test_a_cache_gives_two_passes_at_once_one_order():
    reader = cache(shuffle(lambda: iter(range(20)), 20, seed=3))
    one, two = reader(), reader()
    first, other = [next(one)], [next(two)]
    first += one
    other += two
    assert first == other == list(reader())

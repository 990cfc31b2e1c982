"""``xmap_readers``: applies a function to samples in several threads or processes."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from trainfeed.decorators._reader_stage import ReaderStage, count, open_samples
from trainfeed.decorators._start import Epochs, Start
from trainfeed.processes import (
    Channel,
    Child,
    MessageKind,
    end_threads,
    hand_over_numbers,
    late,
    receive_any,
    receive_message,
    send_message,
    start_thread,
)
from trainfeed.readers import Reader, ReaderLike, Sample
from trainfeed.thread_ties import new_lock, require_owner

__all__ = ["iter_mapped", "xmap_readers"]

# A worker takes at most this many samples at once, for about _TAKEN_S seconds of work. More would
# save little, and leave other workers without samples at the end.
_MAX_TAKEN: Final = 64
_TAKEN_S: Final = 0.001


def xmap_readers(
    mapper: Callable[[Any], Any],
    reader: ReaderLike,
    process_num: int,
    buffer_size: int,
    order: bool = False,
    *,
    use_processes: bool = False,
) -> Reader:
    """Return a reader over ``mapper(sample)``, computed by several workers at once.

    Errors of the mapper are raised in the consumer: with ``order`` after all samples before it,
    without ``order`` as soon as possible. No thread waits in a loop.

    Args:
        mapper: Called by several workers at once.
        reader: The reader; one thread reads it.
        process_num: Number of workers.
        buffer_size: Largest number of samples ahead of the consumer, besides one per worker; 0
            sets no limit.
        order: Whether the order of the reader is kept.
        use_processes: Whether workers are forked processes, for mappers that hold the interpreter
            lock; otherwise they are threads.

    Raises:
        ValueError: ``process_num`` is below 1, or ``buffer_size`` below 0.
        WorkerDiedError: A process was killed or has exited; raised by a pass.
    """
    num_workers = count("process_num", process_num, at_least=1)
    size = num_workers + (count("buffer_size", buffer_size, at_least=0) or sys.maxsize)
    epochs = Epochs()

    def samples(start: Start) -> Iterator[Sample]:
        workers = _Workers(num_workers, size, epochs.of(start), start, hands_over=use_processes)
        if use_processes:
            return _mapped_by_processes(lambda _: mapper, reader, workers, order=order)
        return _mapped(mapper, reader, workers, order=order)

    stage = ReaderStage([reader], samples, epochs=epochs)
    if num_workers > 1 and not order:
        stage.unordered = "xmap_readers() without order=True gives samples as they come"
    return stage


def iter_mapped(
    open_mapper: Callable[[int], Callable[[Any], Any]],
    reader: ReaderLike,
    num_workers: int,
    size: int,
    *,
    epoch: int = 0,
    timeout_s: float | None = None,
) -> Iterator[Any]:
    """Yield the items of a reader, mapped by forked processes, in order.

    Args:
        open_mapper: Called in a worker, with its number, before its first item; returns the mapper.
        reader: The reader; one thread reads it.
        num_workers: Number of processes.
        size: Largest number of items ahead of the consumer.
        epoch: Number of the pass; used for the seeds of random generators only.
        timeout_s: Seconds that the next item may take; None waits as long as its worker is alive.

    Raises:
        WorkerDiedError: A process was killed or has exited.
        LoaderError: The next item takes longer.
    """
    workers = _Workers(num_workers, size, epoch, Start(), timeout_s)
    return _mapped_by_processes(open_mapper, reader, workers, order=True)


class _Workers(NamedTuple):
    number: int
    size: int
    epoch: int
    start: Start
    timeout_s: float | None = None
    hands_over: bool = False


class _Outcome(NamedTuple):
    """The result, or the error, of the sample with a number."""

    number: int
    value: Any
    error: BaseException | None


# Function from numbered samples to their outcomes; it may stop after an outcome with an error.
_Call = Callable[[list[tuple[int, Any]]], Iterator[_Outcome]]


class _Outcomes:
    """Outcomes on their way to the consumer; with ``order`` in the order of their numbers."""

    def __init__(self, *, order: bool) -> None:
        self._order = order
        self._waiting: dict[int, _Outcome] = {}
        self._next = 0
        self._total: int | None = None
        self._error: BaseException | None = None
        self._owner = os.getpid()
        self._changed = threading.Condition(new_lock())

    def put(self, outcome: _Outcome) -> None:
        with self._changed:
            self._waiting[outcome.number] = outcome
            self._changed.notify()

    def end(self, total: int, error: BaseException | None) -> None:
        """Set the number of samples, and the error of the reader, if any."""
        with self._changed:
            self._total, self._error = total, error
            self._changed.notify()

    def take(self, timeout_s: float | None) -> _Outcome | None:
        """Wait for the next outcome; None at the end. Fails in a fork, see ``require_owner``."""
        require_owner(self._owner)
        end_s = math.inf if timeout_s is None else time.monotonic() + timeout_s
        with self._changed:
            while True:
                # With an order the next number only; without, whichever outcome came first.
                key = self._next if self._order else next(iter(self._waiting), -1)
                outcome = self._waiting.pop(key, None)
                if outcome is not None:
                    self._next += 1
                    return outcome
                # The number of samples is known when the reader ends; until then this waits for
                # more.
                if self._next == self._total:
                    return None if self._error is None else _Outcome(-1, None, self._error)
                if time.monotonic() > end_s:
                    raise late(timeout_s)
                self._changed.wait(min(1.0, end_s - time.monotonic()))


def _mapped_by_processes(
    open_mapper: Callable[[int], Callable[[Any], Any]],
    reader: ReaderLike,
    workers: _Workers,
    *,
    order: bool,
) -> Iterator[Sample]:
    children: list[Child] = []
    with contextlib.ExitStack() as stack:
        # All processes are forked before any thread starts: a lock that a thread holds during a
        # fork is never released in the child.
        for number in range(workers.number):
            service = functools.partial(_serve, open_mapper, number)
            children.append(Child(service, number=number, epoch=workers.epoch))
            stack.callback(children[-1].close)
        if workers.hands_over:
            hand_over_numbers()
        calls = [functools.partial(_ask, child) for child in children]
        yield from _outcomes_of(calls, reader, workers, order=order, stop=children)


def _mapped(
    mapper: Callable[[Any], Any], reader: ReaderLike, workers: _Workers, *, order: bool
) -> Iterator[Sample]:
    calls = [functools.partial(_call, mapper)] * workers.number
    yield from _outcomes_of(calls, reader, workers, order=order, stop=())


def _outcomes_of(
    calls: Sequence[_Call],
    reader: ReaderLike,
    workers: _Workers,
    *,
    order: bool,
    stop: Sequence[Child],
) -> Iterator[Sample]:
    todo: Channel[tuple[int, Any]] = Channel(workers.size)
    outcomes = _Outcomes(order=order)
    threads = [start_thread(_feed, reader, workers.start, todo, outcomes)]
    threads += [start_thread(_work, call, todo, outcomes, len(calls)) for call in calls]
    try:
        while (outcome := outcomes.take(workers.timeout_s)) is not None:
            # The unit is given back before the sample is handed on: the consumer holds it from now
            # on.
            todo.release(1)
            if outcome.error is not None:
                raise outcome.error
            yield outcome.value
            del outcome
    finally:
        todo.close()
        for child in stop:
            # A thread may wait for an answer of its child; the end of the process wakes it.
            child.kill()
        end_threads(threads)


def _feed(
    reader: ReaderLike, start: Start, todo: Channel[tuple[int, Any]], outcomes: _Outcomes
) -> None:
    error = None
    try:
        with open_samples(reader, start) as iterator:
            todo.fill(enumerate(iterator))
    except BaseException as raised:  # noqa: BLE001 (any error is raised in the consumer)
        error = raised
    todo.finish()
    # The reader's error is raised after the outcomes of all samples before it.
    outcomes.end(todo.num_items, error)


def _work(
    call: _Call, todo: Channel[tuple[int, Any]], outcomes: _Outcomes, num_workers: int
) -> None:
    num_taken = 1
    while tasks := todo.take(num_taken):
        started_at = time.monotonic()
        for outcome in call(tasks):
            outcomes.put(outcome)
        per_sample_s = (time.monotonic() - started_at) / len(tasks)
        # Slow samples are taken one by one, so that no sample waits behind a slow one; and a
        # worker takes at most half of its fair share, so that others get samples too.
        fair_share = todo.backlog // (2 * num_workers)
        at_once = int(_TAKEN_S / max(per_sample_s, _TAKEN_S / _MAX_TAKEN))
        # At most doubled per round, because the time of a few samples may not be typical.
        num_taken = max(1, min(2 * num_taken, at_once, fair_share))


def _call(mapper: Callable[[Any], Any], tasks: list[tuple[int, Any]]) -> Iterator[_Outcome]:
    for number, item in tasks:
        try:
            value = mapper(item)
        except BaseException as error:  # noqa: BLE001 (any error is raised in the consumer)
            yield _Outcome(number, None, error)
            return
        yield _Outcome(number, value, None)


def _ask(child: Child, tasks: list[tuple[int, Any]]) -> Iterator[_Outcome]:
    num_done = 0
    try:
        child.send([item for _, item in tasks])
        while num_done < len(tasks):
            _, message = receive_any([child])
            if message.kind is MessageKind.ERROR:
                raise message.content  # noqa: TRY301 (handled like errors raised here)
            for value in message.content:
                yield _Outcome(tasks[num_done][0], value, None)
                num_done += 1
    except Exception as error:  # noqa: BLE001 (any error is raised in the consumer)
        yield _Outcome(tasks[num_done][0], None, error)


def _serve(
    open_mapper: Callable[[int], Callable[[Any], Any]], number: int, connection: socket.socket
) -> None:
    """Map the items that the parent sends; runs in the child. ``run`` sends an exception."""
    mapper: Callable[[Any], Any] | None = None
    while (message := receive_message(connection)) is not None:
        values: list[Any] = []
        try:
            mapper = mapper or open_mapper(number)
            for item in message.content:
                values.append(mapper(item))  # noqa: PERF401 (keeps the values before an error)
        finally:
            send_message(connection, MessageKind.ITEMS, values)

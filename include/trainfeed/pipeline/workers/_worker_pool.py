"""The local engine: a pool of worker processes in which user functions run.

A function may raise, exit, be killed, loop, print without end, or take all memory. Each of these
gives one error with cause and record, and the worker is replaced. Workers are new programs, not
forks, because clients of HDFS and Kafka do not survive a fork. The pool keeps idle workers for the
next task of this process, because the start of one takes half a second.
"""

from __future__ import annotations

import atexit
import math
import os
import selectors
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

from trainfeed.memory_group import KillCount
from trainfeed.pipeline.workers._worker_death import Death, DeathCause, WorkerLimits
from trainfeed.pipeline.workers._worker_process import WorkerProcess
from trainfeed.pipeline.workers._worker_protocol import (
    JobCrashed,
    JobDone,
    JobFailed,
    JobStarted,
    RangeDone,
)

if TYPE_CHECKING:
    from trainfeed.pipeline.workers._worker_job import Job

__all__ = [
    "Watch",
    "death",
    "new_worker",
    "rest_workers",
    "run_jobs",
    "start_workers",
    "stop_workers",
]

_POLL_S: Final = 0.1
_MAX_IDLE: Final = 8
_Result = TypeVar("_Result")


def run_jobs(
    jobs: Sequence[Job[_Result]], limits: WorkerLimits, on_piece: Callable[[int], object]
) -> list[_Result]:
    """Run every job in a separate worker, all at once.

    Args:
        jobs: The jobs, at least one.
        limits: Limits of each job.
        on_piece: Called with the index of every range that is done.

    Returns:
        The results in the order of ``jobs``.

    Raises:
        TrainFeedError: The first error of a job; the others are ended.
        Death: A worker died, or exceeded a limit.
    """
    with _leased(len(jobs), limits.memory_bytes) as workers:
        # Counted from here on: a kill by the kernel after this is probably one of these workers.
        kills = KillCount()
        for worker, job in zip(workers, jobs, strict=True):
            try:
                worker.submit(job)
            except OSError:
                raise death(worker, kills) from None
        return Watch[_Result](workers, limits, on_piece, kills).results()


def start_workers(count: int) -> None:
    """Start workers until ``count`` are idle; returns before they are ready."""
    with _leased(min(count, _MAX_IDLE)):
        pass


def rest_workers() -> None:
    """Make idle workers return their free memory to the system."""
    with _lock:
        for worker in _idle:
            worker.rest()


def stop_workers(*, busy: bool = False) -> None:
    """End all idle workers.

    Args:
        busy: Whether to end busy workers as well; a caller that waits for one gets a ``Death``.
    """
    with _lock:
        workers, _idle[:] = _idle[:], []
        at_work = list(_busy) if busy else []
    # First all get the signal, then each is waited for: a process takes a while to free its memory.
    for worker in [*workers, *at_work]:
        worker.interrupt()
    for worker in workers:
        worker.kill()


class Watch(Generic[_Result]):
    """Waits for the reports of workers, and enforces their limits."""

    def __init__(
        self,
        workers: list[WorkerProcess],
        limits: WorkerLimits,
        on_piece: Callable[[int], object],
        kills: KillCount,
    ) -> None:
        self._workers = workers
        self._limits = limits
        self._on_piece = on_piece
        self._kills = kills
        self._results: dict[int, _Result] = {}
        # Set when a worker begins its job: the start of a process does not count as its time.
        self._deadlines: dict[int, float] = {}

    def results(self) -> list[_Result]:
        """Return the results of all jobs."""
        with selectors.DefaultSelector() as selector:
            for number, worker in enumerate(self._workers):
                selector.register(worker.channel, selectors.EVENT_READ, (number, True))
                selector.register(worker.output, selectors.EVENT_READ, (number, False))
            while len(self._results) < len(self._workers):
                for key, _ in selector.select(_POLL_S):
                    self._on_event(selector, *key.data)
                self._check()
        return [self._results[number] for number in range(len(self._workers))]

    def _on_event(self, selector: selectors.BaseSelector, number: int, is_report: bool) -> None:
        worker = self._workers[number]
        if not is_report:
            if not worker.read_output():
                selector.unregister(worker.output)
            return
        # Output that was printed before a report comes before it in the log, too.
        worker.read_output()
        report = worker.receive()
        if report is None:
            raise death(worker, self._kills)
        match report:
            case JobStarted():
                self._deadlines[number] = time.monotonic() + self._limits.time_s
            case RangeDone():
                self._on_piece(report.index)
            case JobDone():
                # The type is that of the jobs; the report from the socket has no type.
                self._results[number] = cast("_Result", report.result)
                selector.unregister(worker.channel)
            case JobFailed():
                raise report.error
            case JobCrashed():
                raise RuntimeError(f"a worker process of the build failed:\n{report.stack}")

    def _check(self) -> None:
        for number, worker in enumerate(self._workers):
            if number in self._results:
                continue
            if (rss_bytes := worker.rss_bytes()) > self._limits.memory_bytes:
                raise Death(DeathCause.MEMORY, rss_bytes, worker.place.read(), "")
            if time.monotonic() > self._deadlines.get(number, math.inf):
                raise Death(DeathCause.TIME, 0, worker.place.read(), worker.stack())


def death(worker: WorkerProcess, kills: KillCount) -> Death:
    """Return how a worker has ended; waits for its end."""
    status = worker.wait()
    place, printed = worker.place.read(), worker.printed()
    if status < 0:
        # The kernel kills with SIGKILL for want of memory, and so does this process: only a kill by
        # another one can be the kernel's.
        is_foreign_kill = status == -signal.SIGKILL and not worker.was_told_to_end
        want = is_foreign_kill and kills.has_grown()
        return Death(DeathCause.SIGNAL, -status, place, printed, want)
    return Death(DeathCause.EXIT, status, place, printed)


def _new_nursery() -> ThreadPoolExecutor:
    # One thread starts all workers and lives as long as the process: for the death signal, the
    # kernel takes the thread that started a process as its parent, not the process.
    return ThreadPoolExecutor(1, thread_name_prefix="trainfeed-engine")


_nursery = _new_nursery()
_lock = threading.Lock()
_idle: list[WorkerProcess] = []
_busy: set[WorkerProcess] = set()


@contextmanager
def _leased(count: int, memory_bytes: int = sys.maxsize) -> Iterator[list[WorkerProcess]]:
    """Yield ``count`` workers; those that are still busy at the end are killed.

    Args:
        count: Number of workers.
        memory_bytes: Most memory of an idle worker that is used again: memory left by its earlier
            jobs must not count against the next.
    """
    workers: list[WorkerProcess] = []
    try:
        for _ in range(count):
            workers.append(_idle_worker(memory_bytes) or new_worker())
            with _lock:
                _busy.add(workers[-1])
        yield workers
    finally:
        # A worker that is not idle here has a job whose result is not wanted any more.
        kept = [worker for worker in workers if worker.is_idle and worker.is_alive]
        with _lock:
            _busy.difference_update(workers)
            kept = kept[: max(0, _MAX_IDLE - len(_idle))]
            _idle.extend(kept)
        for worker in workers:
            if worker not in kept:
                worker.kill()


def new_worker() -> WorkerProcess:
    """Start a worker; the caller ends it with ``kill``."""
    return _nursery.submit(WorkerProcess).result()


def _idle_worker(memory_bytes: int) -> WorkerProcess | None:
    while True:
        with _lock:
            if not _idle:
                return None
            worker = _idle.pop()
        if worker.is_alive and worker.rss_bytes() <= memory_bytes:
            return worker
        worker.kill()


def _forget() -> None:
    """Forget, in a forked child, the workers of its parent."""
    # Lock and thread are replaced: their threads do not exist in the child.
    global _lock, _nursery
    _lock, _nursery = threading.Lock(), _new_nursery()
    for worker in [*_idle, *_busy]:
        worker.forget()
    _idle.clear()
    _busy.clear()


atexit.register(stop_workers)
os.register_at_fork(after_in_child=_forget)

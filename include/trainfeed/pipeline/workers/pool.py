"""The parent's side of worker processes: started, given jobs, watched, ended."""

from __future__ import annotations

import atexit
import logging
import math
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, cast

from trainfeed.core.child_processes import ProgramChild, next_message, poll
from trainfeed.core.config import worker_environ
from trainfeed.core.memory_group import KillCount
from trainfeed.errors import EngineError
from trainfeed.pipeline.workers.protocol import (
    PROGRESS_BYTES,
    STACK_SIGNAL,
    VARIABLE,
    Family,
    JobCrashed,
    JobDone,
    JobFailed,
    JobReport,
    JobStarted,
    LastSeen,
    RangeDone,
    WorkerPlace,
    WorkerReport,
)

if TYPE_CHECKING:
    from trainfeed.pipeline.workers.protocol import Job


# --- The limits of a worker for a job, and the exception for a worker that died


@dataclass(frozen=True)
class WorkerLimits:
    """The limits of a worker for a job.

    Attributes:
        time_s: Duration of the job in seconds.
        memory_bytes: Resident memory.
    """

    time_s: float
    memory_bytes: int


class DeathCause(StrEnum):
    """Why a worker ended before its job was done.

    Attributes:
        EXIT: The worker ended itself.
        SIGNAL: A signal ended the worker.
        TIME: The job took longer than its limit.
        MEMORY: The worker took more memory than its limit.
    """

    EXIT = "exit"
    SIGNAL = "signal"
    TIME = "time"
    MEMORY = "memory"


class Death(Exception):  # noqa: N818 - an event, which the caller turns into an error
    """A worker ended, or was ended, before its job was done.

    Attributes:
        cause: Why the worker ended.
        detail: Exit status, signal number, or bytes, depending on the cause.
        place: The last position of the worker.
        printed: The end of the worker's output; for TIME, the stack of the function.
        for_want_of_memory: Whether the kernel killed the worker for want of memory, by the
            counter of the control group; None if that is probable but there is no counter.
    """

    def __init__(
        self,
        cause: DeathCause,
        detail: int,
        place: LastSeen,
        printed: str,
        for_want_of_memory: bool | None = False,
    ) -> None:
        super().__init__(cause, detail, place, printed, for_want_of_memory)
        self.cause = cause
        self.detail = detail
        self.place = place
        self.printed = printed
        self.for_want_of_memory = for_want_of_memory


# --- The parent's side of a worker process: starts it, sends jobs, watches it, ends it

logger = logging.getLogger(__name__)
# A separate logger, so that the output of functions can be selected.
_printed = logging.getLogger("trainfeed.printed")

_PROGRAM: Final = "trainfeed.pipeline.workers._worker_main"
_GRACE_S: Final = 5.0
_STACK_S: Final = 5.0
_STACK_BEGIN: Final = "(most recent call first):\n"
_STACK_END: Final = b"in <module>\n"
# In a stack, the first frame of trainfeed: the frames of the user's code come before it.
_OUR_FRAME: Final = f'  File "{Path(__file__).parent.with_name("functions") / "user_function.py"}'
_READ_BYTES: Final = 64 << 10
# A pipe holds the bytes of one read; a function may print more meanwhile, and without end.
_MOST_READS: Final = 8
# Limits for the output of functions: in the log per job, and in an error.
_MAX_LOGGED_BYTES: Final = 64 << 10
_MAX_SHOWN_BYTES: Final = 2000


class WorkerProcess(ProgramChild):
    """A worker process. Ending it ends all processes that its functions have started.

    Attributes:
        place: Position of its function.
        is_idle: Whether the worker waits for a job.
        was_told_to_end: Whether this process has ended the worker.

    Args:
        with_keys: Whether it gets keys of object stores.
    """

    def __init__(self, *, with_keys: bool = False) -> None:
        token = uuid.uuid4().hex
        self._environ = worker_environ(with_keys=with_keys)
        progress = os.memfd_create("trainfeed-progress")
        # Its memory stays mapped.
        with ExitStack() as files:
            files.callback(os.close, progress)
            os.ftruncate(progress, PROGRESS_BYTES)
            super().__init__(
                _PROGRAM,
                fds=[progress],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**self._environ, VARIABLE: token},
                process_group=0,
            )
            self.place = WorkerPlace(progress)
        self._family = Family(self.pid, token)
        assert self.process.stdout is not None  # noqa: S101 - for the type checker
        self._output = self.process.stdout
        os.set_blocking(self._output.fileno(), False)
        self._is_printing = True
        self._tail = b""
        self._num_printed = 0
        self._label = ""
        self.was_told_to_end = False
        self.is_idle = True

    @property
    def is_alive(self) -> bool:
        """Whether the worker can take a job."""
        # A worker that was told to end may still be there for a moment.
        return not self.was_told_to_end and not self.has_ended()

    def has_environ_of_now(self, *, with_keys: bool) -> bool:
        """Return whether a worker that is started now would get the same variables."""
        return self._environ == worker_environ(with_keys=with_keys)

    def submit(self, job: Job[object]) -> None:
        """Send a job; one at a time.

        Raises:
            Death: The worker has died.
        """
        self._tail, self._num_printed, self._label = b"", 0, job.label
        self.is_idle = False
        # Counted from here on: a kill by the kernel after this is probably that of this worker.
        self.kills = KillCount()
        try:
            self.connection.send(job)
        except OSError:
            raise self.death() from None

    def rest(self) -> None:
        """Make an idle worker return its free memory to the system."""
        with suppress(OSError):
            self.connection.send(None)

    def try_receive(self) -> WorkerReport | None:
        """Return the next report, or None; what was printed before it is logged before it, too."""
        report: WorkerReport | None = super().try_receive()
        if report is not None:
            self.is_idle = isinstance(report, JobReport)
        if report is not None or (self._is_printing and poll([self._output.fileno()], 0.0)):
            self.read_output()
        return report

    def message_fds(self) -> list[int]:
        """Return what is readable when a report has arrived or something was printed."""
        fds = super().message_fds()
        return [*fds, self._output.fileno()] if fds and self._is_printing else fds

    def death(self) -> Death:
        """Return how the worker has ended; waits for its end."""
        status = self._ended_status()
        place, printed = self.place.read(), self.printed()
        if status >= 0:
            return Death(DeathCause.EXIT, status, place, printed)
        # The kernel kills with SIGKILL for want of memory, and so does this process: only a kill by
        # another one can be the kernel's.
        is_foreign_kill = status == -signal.SIGKILL and not self.was_told_to_end
        want = is_foreign_kill and self.kills.has_grown()
        return Death(DeathCause.SIGNAL, -status, place, printed, want)

    def read_output(self) -> None:
        """Log the worker's output since the last call, up to a bound per job."""
        for _ in range(_MOST_READS if self._is_printing else 0):
            try:
                data = os.read(self._output.fileno(), _READ_BYTES)
            except BlockingIOError:
                return
            if not data:
                # The worker has closed its output or ended.
                self._is_printing = False
                return
            self._tail = (self._tail + data)[-_MAX_SHOWN_BYTES:]
            # Bytes that may still be logged for this job.
            room = _MAX_LOGGED_BYTES - self._num_printed
            self._num_printed += len(data)
            if room > 0:
                text = data[:room].decode(errors="replace").rstrip()
                _printed.info("%s printed: %s", self._label, text)
            if len(data) > room > 0:
                _printed.warning("%s prints too much; the rest is not logged", self._label)

    def printed(self) -> str:
        """Return the end of the worker's output during the job."""
        self.read_output()
        return self._tail.decode(errors="replace").strip()

    def stack(self) -> str:
        """Return the innermost Python frames of a function that does not return."""
        self.read_output()
        with suppress(OSError):
            self.process.send_signal(STACK_SIGNAL)
        text = b""
        deadline = time.monotonic() + _STACK_S
        while _STACK_END not in text and time.monotonic() < deadline:
            if not poll([self._output.fileno()], _STACK_S):
                break
            data = os.read(self._output.fileno(), _READ_BYTES)
            if not data:
                break
            text = (text + data)[-_READ_BYTES:]
        # The output may have other text before the stack; the last mark begins the stack.
        _, _, frames = text.decode(errors="replace").rpartition(_STACK_BEGIN)
        own, _, _ = frames.partition(_OUR_FRAME)
        return own[:_MAX_SHOWN_BYTES].rstrip()

    def rss_bytes(self) -> int:
        """Return the bytes of the worker and of the processes it started; 0 if it is gone."""
        return self._family.memory_bytes()

    def interrupt(self) -> None:
        """End the worker at once; its owner still has to release it with ``kill``."""
        self.was_told_to_end = True
        self._end_family()

    def kill(self) -> None:
        """End the worker at once and release its descriptors; safe to call twice."""
        self.interrupt()
        self.process.wait()
        self.release()

    def forget(self) -> None:
        """Release the descriptors in a forked child, without touching the worker itself."""
        self.process.returncode = 0
        self.release()

    def release(self) -> None:
        """Release the descriptors and the memory; safe to call twice."""
        if not self.connection.closed:
            super().release()
            self._output.close()
            self.place.close()

    def _ended_status(self) -> int:
        """Return the exit status, negative for a signal; one that does not end is killed."""
        if not self.has_ended(_GRACE_S):
            self.was_told_to_end = True
        self._end_family()
        return self.process.wait()

    def _end_family(self) -> None:
        # After it was reaped, its id may belong to another process group.
        if self.process.returncode is None:
            self._family.end()


# --- The local engine: a pool of worker processes in which user functions run

_POLL_S: Final = 0.1
_MAX_IDLE: Final = 8
_Result = TypeVar("_Result")


def run_jobs(
    jobs: Sequence[Job[_Result]],
    limits: WorkerLimits,
    on_piece: Callable[[int], object],
    *,
    with_keys: bool = False,
) -> list[_Result]:
    """Run every job in a separate worker, all at once.

    Args:
        jobs: The jobs, at least one.
        limits: Limits of each job.
        on_piece: Called with the index of every range that is done.
        with_keys: Whether the workers get keys of object stores.

    Returns:
        The results in the order of ``jobs``.

    Raises:
        TrainFeedError: The first error of a job; the others are ended.
        Death: A worker died, or exceeded a limit.
    """
    with _leased(len(jobs), limits.memory_bytes, with_keys=with_keys) as workers:
        for worker, job in zip(workers, jobs, strict=True):
            worker.submit(job)
        return _results_of(workers, limits, on_piece)


def start_workers(count: int, *, with_keys: bool = False) -> None:
    """Start workers until ``count`` are idle; returns before they are ready."""
    with _leased(min(count, _MAX_IDLE), with_keys=with_keys):
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


def _results_of(
    workers: list[WorkerProcess], limits: WorkerLimits, on_piece: Callable[[int], object]
) -> list[Any]:
    """Wait for the reports of workers with a job each, enforce limits, and return the results."""
    # Set when a worker begins its job: the start of a process does not count as its time.
    deadlines: dict[WorkerProcess, float] = {}
    results: dict[WorkerProcess, object] = {}
    checked_s = -math.inf
    while waiting := [worker for worker in workers if worker not in results]:
        if found := next_message(waiting, _POLL_S):
            worker, report = found[0], cast("WorkerReport", found[1])
            match report:
                case JobStarted():
                    deadlines[worker] = time.monotonic() + limits.time_s
                case RangeDone():
                    on_piece(report.index)
                case JobDone():
                    results[worker] = report.result
                case JobFailed():
                    raise report.error
                case JobCrashed():
                    raise RuntimeError(f"a worker process of the build failed:\n{report.stack}")
        # Not with every report: to look at a worker's memory takes as long as a small range.
        if time.monotonic() - checked_s >= _POLL_S:
            _check_all([each for each in waiting if each not in results], limits, deadlines)
            checked_s = time.monotonic()
    return [results[worker] for worker in workers]


def _check_all(
    workers: Iterable[WorkerProcess],
    limits: WorkerLimits,
    deadlines: Mapping[WorkerProcess, float],
) -> None:
    for worker in workers:
        if (rss_bytes := worker.rss_bytes()) > limits.memory_bytes:
            raise Death(DeathCause.MEMORY, rss_bytes, worker.place.read(), "")
        if time.monotonic() > deadlines.get(worker, math.inf):
            raise Death(DeathCause.TIME, 0, worker.place.read(), worker.stack())


def _new_nursery() -> ThreadPoolExecutor:
    # One thread starts all workers and lives as long as the process: for the death signal, the
    # kernel takes the thread that started a process as its parent, not the process.
    return ThreadPoolExecutor(1, thread_name_prefix="trainfeed-engine")


_nursery = _new_nursery()
_lock = threading.Lock()
_idle: list[WorkerProcess] = []
_busy: set[WorkerProcess] = set()


@contextmanager
def _leased(
    count: int, memory_bytes: int = sys.maxsize, *, with_keys: bool = False
) -> Iterator[list[WorkerProcess]]:
    """Yield ``count`` workers; those that are still busy at the end are killed.

    Args:
        count: Number of workers.
        memory_bytes: Most memory of an idle worker that is used again: memory left by its earlier
            jobs must not count against the next.
        with_keys: Whether they get keys of object stores.
    """
    workers: list[WorkerProcess] = []
    try:
        for _ in range(count):
            found = _idle_worker(memory_bytes, with_keys=with_keys)
            workers.append(found or new_worker(with_keys=with_keys))
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


def new_worker(*, with_keys: bool = False) -> WorkerProcess:
    """Start a worker; the caller ends it with ``kill``."""
    return _nursery.submit(WorkerProcess, with_keys=with_keys).result()


def _idle_worker(memory_bytes: int, *, with_keys: bool) -> WorkerProcess | None:
    while True:
        with _lock:
            if not _idle:
                return None
            worker = _idle.pop()
        is_fit = worker.is_alive and worker.has_environ_of_now(with_keys=with_keys)
        if is_fit and worker.rss_bytes() <= memory_bytes:
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


# --- A worker process that stays with one owner, so that its state outlives a job


class OwnWorker:
    """A worker of one owner; one thread at a time gives it jobs, any thread may end it.

    A context manager that ends the worker. The worker ends with this process, too.
    """

    def __init__(self) -> None:
        self._worker = new_worker()
        # Held by a job: its descriptors are closed only when nothing waits at them any more.
        self._turn = threading.Lock()
        self._is_closed = False

    @property
    def is_alive(self) -> bool:
        """Whether the worker can take a job."""
        return self._worker.is_idle and self._worker.is_alive

    @property
    def is_running(self) -> bool:
        """Whether its process lives, at a job or without one."""
        if not self._turn.acquire(blocking=False):
            return True  # a job finds out itself, and ends a worker that died
        try:
            return not self._is_closed and self._worker.is_alive
        finally:
            self._turn.release()

    def run(self, job: Job[_Result], limits: WorkerLimits) -> _Result:
        """Run one job.

        Args:
            job: The job.
            limits: Limits of the job.

        Raises:
            TrainFeedError: The error of the job; the worker can take the next one.
            Death: The worker died, or exceeded a limit; it is ended.
            EngineError: The worker was closed before.
        """
        with self._turn:
            if self._is_closed:
                raise EngineError(
                    f"expected a worker for the job '{job.label}', got one that its owner has"
                    " ended; the job did not run; nothing is to be done at the end of a program"
                )
            return self._ran(job, limits)

    def close(self) -> None:
        """End the worker and all processes that its functions have started; safe to call twice.

        A job that runs in another thread raises ``Death``.
        """
        self._worker.interrupt()
        with self._turn:
            self._is_closed = True
            self._worker.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _ran(self, job: Job[_Result], limits: WorkerLimits) -> _Result:
        try:
            self._worker.submit(job)
            result: _Result = _results_of([self._worker], limits, _ignore)[0]
            return result
        finally:
            if not self._worker.is_idle:
                self._worker.kill()


def _ignore(index: int) -> None:
    """Take the number of a range that is done: jobs of own workers have no ranges."""

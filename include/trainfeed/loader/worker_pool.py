"""The worker processes of a loader: started, given questions, watched, ended."""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import spawn
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.core.child_processes import ProgramChild, next_message
from trainfeed.core.memory_group import free_group_bytes
from trainfeed.errors import ConfigError, LoaderError, MemoryLimitError, WorkerDiedError
from trainfeed.loader.memory import Lend, lend
from trainfeed.loader.worker_messages import (
    IMPORTING_MAIN,
    Answer,
    LoaderJob,
    Question,
    SharedSlots,
    dump,
)

# --- Worker processes, one by one: started, prepared, ended

_PROGRAM: Final = "trainfeed.loader.worker"
_END_S: Final = 1.0


class Worker(ProgramChild):
    """One worker process.

    Args:
        memory_fd: Descriptor of the shared memory.

    Attributes:
        unanswered: The questions that the process has not answered yet, by number.
    """

    def __init__(self, memory_fd: int) -> None:
        in_main = threading.current_thread() is threading.main_thread()
        python = os.fsdecode(spawn.get_executable() or "")
        thread = "main" if in_main else "other"
        super().__init__(_PROGRAM, thread, fds=[memory_fd], executable=python)
        self.unanswered: dict[int, Question] = {}

    def asked_first(self) -> str:
        """Return the oldest question without an answer, as text."""
        task = self.unanswered[min(self.unanswered)].task
        return f"window {task.window} of lane {task.lane} in epoch {task.epoch}"

    def death(self) -> WorkerDiedError:
        """Return the error for a process that has ended before its answer."""
        self.has_ended(_END_S)  # a moment after the connection was closed
        return WorkerDiedError(
            f"loader worker {self.pid} {self.ending(self.process.poll())} while it should load"
            f" {self.asked_first()}; earlier batches are good: restore the state"
        )


def end_workers(workers: list[Worker], owner: int) -> None:
    """Close the connections, which lets workers exit; kill those that do not."""
    for worker in workers:
        worker.connection.close()
    # A fork closes its copies of the connections; the processes belong to its parent.
    if os.getpid() != owner:
        return
    end_s = time.monotonic() + _END_S
    for worker in workers:
        if not worker.has_ended(max(0.0, end_s - time.monotonic())):
            worker.process.kill()
        worker.process.wait()
        worker.release()
    workers.clear()


def preparation(payload: bytes) -> dict[str, Any]:
    """Return the data for importing the main program, if the dataset is defined there."""
    if b"__main__" not in payload:
        return {}
    if sys.modules["__main__"].__dict__.get("__file__") is None:
        raise ConfigError(
            "the dataset's class is defined in an interactive session, which worker processes"
            " cannot import; put it into a module, or use num_threads"
        )
    wanted = ("name", "sys_argv", "dir", "init_main_from_name", "init_main_from_path")
    found = spawn.get_preparation_data("trainfeed-loader")
    return {name: found[name] for name in wanted if name in found}


def require_not_importing() -> None:
    """Refuse to start a process while a worker imports the main program.

    Raises:
        ConfigError: This process is such a worker.
    """
    if IMPORTING_MAIN.is_set():
        raise ConfigError(
            "a worker process imports the main program, because the dataset's class is defined"
            " there, and the main program must not start a loader while it is imported; put what"
            " the program does below"
            ' if __name__ == "__main__":, or the class into a module'
        )


# --- The slots of the shared memory: which are free, and which the consumer holds


class SlotLedger:
    """The slots that are free or lent; all others are with workers, or hold an unread answer.

    A lend ends in the thread that drops the last array, at any moment, and is only noted there. The
    thread that takes slots takes the noted ones back: what it finds free is not lent any more.

    Args:
        num_slots: Number of slots.
    """

    def __init__(self, num_slots: int) -> None:
        self._free = list(range(num_slots))
        self._ended: deque[Lend] = deque()
        self._num_lends = 0  # also those that ended, until they are taken back

    @property
    def num_lent(self) -> int:
        """Number of slots that the consumer holds."""
        return self._num_lends - len(self._ended)

    def take(self) -> int | None:
        """Return a free slot, None when there is none."""
        while self._ended:
            self._free.append(self._ended.popleft().back)
            self._num_lends -= 1
        return self._free.pop() if self._free else None

    def lend(self, slot: int, memory: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return a view of the memory of a slot, which is lent until the last array on it goes."""
        self._num_lends += 1
        return lend(memory, self._ended.append, slot)

    def give_back(self, slot: int) -> None:
        """Take back a slot that was not lent."""
        self._free.append(slot)


# --- The worker processes of a loader: gives them questions, watches them, ends them

# Memory of a process besides slots: interpreter, numpy, codecs.
_WORKER_BYTES: Final = 64 << 20
_LOOK_S: Final = 1.0
# Number of questions per worker that its socket buffer holds for certain. With more, the loader
# could block in sending a question while the worker blocks in sending an answer.
_MAX_UNANSWERED: Final = 32
# How the system refuses memory.
_NO_MEMORY: Final = frozenset({errno.ENOMEM, errno.EFBIG, errno.ENOSPC})


class WorkerPool:
    """Processes that answer questions, and the slots for their answers.

    Args:
        job: The sets, and the layout of the shared memory.
        num_workers: Number of processes.

    Attributes:
        slots: The shared memory.
        ledger: Knows the free slots.
        answers: Answers that have come and were not taken yet, with their slots, by number.
        owner: Id of the process that started the workers; a fork of it cannot use them.

    Raises:
        ConfigError: The dataset cannot be pickled, or this process is a worker that imports the
            main program.
        MemoryLimitError: The slots do not fit into the memory of the control group, or of the
            machine.
    """

    def __init__(self, job: LoaderJob, num_workers: int) -> None:
        require_not_importing()
        _check_memory(job, num_workers)
        payload = _dumped(job)
        with _memory_errors(job):
            memory_fd = SharedSlots.create(job.slot_bytes, job.num_slots)
        self._workers: list[Worker] = []
        self.owner = os.getpid()
        self._finalizer = weakref.finalize(self, end_workers, self._workers, self.owner)
        self.num_slots = job.num_slots
        self.ledger = SlotLedger(job.num_slots)
        self.answers: dict[int, tuple[Answer, int]] = {}
        self.failure: BaseException | None = None
        try:
            with _memory_errors(job):
                self.slots = SharedSlots(memory_fd, job.slot_bytes, job.num_slots)
            for _ in range(num_workers):
                self._workers.append(Worker(memory_fd))
            main_program = preparation(payload)
            for worker in self._workers:
                with suppress(BrokenPipeError):
                    worker.connection.send(main_program)
                    worker.connection.send_bytes(payload)
        finally:
            os.close(memory_fd)

    def ask(self, question: Question) -> None:
        """Send a question to the worker with the fewest unanswered questions."""
        worker = min(self._workers, key=lambda worker: len(worker.unanswered))
        worker.unanswered[question.number] = question
        # ``wait_for`` finds the process dead and raises an error with details.
        with suppress(BrokenPipeError, ConnectionResetError):
            worker.connection.send(question)

    @property
    def is_usable(self) -> bool:
        """Whether this process started the workers, and all of them are alive."""
        if os.getpid() != self.owner:
            return False
        return all(not worker.has_ended() for worker in self._workers)

    @property
    def is_idle(self) -> bool:
        """Whether no question is open and no answer unread."""
        return not self.answers and not any(worker.unanswered for worker in self._workers)

    @property
    def num_open(self) -> int:
        """Number of questions without an answer, and of answers that were not taken."""
        return len(self.answers) + sum(len(worker.unanswered) for worker in self._workers)

    @property
    def is_busy(self) -> bool:
        """Whether every worker has its largest number of questions."""
        return min(len(worker.unanswered) for worker in self._workers) >= _MAX_UNANSWERED

    def wait_for(self, number: int, timeout_s: float) -> tuple[Answer, int]:
        """Return an answer and the number of its slot.

        Raises:
            WorkerDiedError: The worker is dead or stopped, or has not answered within
                ``timeout_s``. Every later call fails at once.
            LoaderError: There is no such question.
        """
        try:
            return self._wait_for(number, timeout_s)
        except WorkerDiedError as error:
            self.failure = error
            raise

    def _wait_for(self, number: int, timeout_s: float) -> tuple[Answer, int]:
        end_s = time.monotonic() + timeout_s
        while number not in self.answers:
            if self.failure is not None:
                raise self.failure
            worker = next((each for each in self._workers if number in each.unanswered), None)
            if worker is None:
                raise LoaderError(
                    f"expected question {number} to be with a worker, none has it; earlier batches"
                    " are good: restore the state"
                )
            # An answer or the end of the process comes at once; _LOOK_S is only the interval at
            # which a stopped worker and the timeout are looked for.
            if found := next_message(self._workers, _LOOK_S, needed=[worker]):
                self._take(*found)
                continue
            if worker.stays_stopped():
                raise WorkerDiedError(
                    f"loader worker {worker.pid} is stopped (SIGSTOP) while it should load"
                    f" {worker.asked_first()}; continue or kill it, and restore the state"
                )
            if time.monotonic() > end_s:
                raise WorkerDiedError(
                    f"loader worker {worker.pid} has not loaded {worker.asked_first()}"
                    f" within {timeout_s:g} s; raise timeout_s if samples take that long"
                )
        return self.answers.pop(number)

    def _take(self, worker: Worker, answer: Answer) -> None:
        if answer.number < 0:
            self.failure = answer.error
            return
        question = worker.unanswered.pop(answer.number)
        self.answers[answer.number] = answer, question.slot

    def close(self) -> None:
        """End all processes; safe to call twice. Lent slots stay valid."""
        self._finalizer()


def _dumped(job: LoaderJob) -> bytes:
    try:
        return dump(job)
    except MemoryError:
        raise
    except Exception as error:
        raise ConfigError(
            f"the dataset cannot be sent to worker processes: {error}; define its class in a"
            " module, keep open files and locks out of it, or use num_threads"
        ) from error


@contextmanager
def _memory_errors(job: LoaderJob) -> Iterator[None]:
    """Raise ``MemoryLimitError`` where the system refuses the shared memory."""
    try:
        yield
    except (OSError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno not in _NO_MEMORY:
            raise
        raise MemoryLimitError(
            f"expected {job.num_slots} slots of {job.slot_bytes} bytes of shared memory, the system"
            f" refused: {error}; lower num_workers, prefetch, window_bytes or max_bytes"
        ) from error


def _check_memory(job: LoaderJob, num_workers: int) -> None:
    free_bytes = free_group_bytes()
    need_bytes = job.slot_bytes * job.num_slots + num_workers * _WORKER_BYTES
    if free_bytes is not None and need_bytes > free_bytes:
        raise MemoryLimitError(
            f"{num_workers} workers and {job.num_slots} slots of {job.slot_bytes} bytes need"
            f" {need_bytes} bytes, the control group leaves {free_bytes}; raise its limit, or lower"
            " num_workers, prefetch, window_bytes or max_bytes"
        )

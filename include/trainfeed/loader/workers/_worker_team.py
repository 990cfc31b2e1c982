"""The worker processes of a loader: gives them questions, watches them, ends them."""

from __future__ import annotations

import os
import select
import time
import weakref
from contextlib import suppress
from typing import Final

from trainfeed.errors import MemoryLimitError, WorkerDiedError
from trainfeed.loader.workers._messages import Answer, LoaderJob, Question, dump, load
from trainfeed.loader.workers._slots import SharedSlots, SlotLedger
from trainfeed.loader.workers._worker_start import (
    Worker,
    end_workers,
    preparation,
    require_not_importing,
    start_worker,
)
from trainfeed.memory_group import KillCount, free_group_bytes
from trainfeed.process_ties import ending

__all__ = ["WorkerPool"]


# Memory of a process besides slots: interpreter, numpy, codecs.
_WORKER_BYTES: Final = 64 << 20
_LOOK_S: Final = 1.0
_STOPPED_LOOKS: Final = 3
# Number of questions per worker that its socket buffer holds for certain. With more, the loader
# could block in sending a question while the worker blocks in sending an answer.
_MAX_UNANSWERED: Final = 32


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
        MemoryLimitError: The slots do not fit into the memory of the control group.
    """

    def __init__(self, job: LoaderJob, num_workers: int) -> None:
        require_not_importing()
        _check_memory(job, num_workers)
        payload = dump(job)
        memory_fd = SharedSlots.create(job.slot_bytes, job.num_slots)
        self._workers: list[Worker] = []
        self.owner = os.getpid()
        self._finalizer = weakref.finalize(self, end_workers, self._workers, self.owner)
        self._kills = KillCount()
        self.num_slots = job.num_slots
        self.ledger = SlotLedger(job.num_slots)
        self.answers: dict[int, tuple[Answer, int]] = {}
        self.failure: BaseException | None = None
        self.num_reread = 0
        try:
            self.slots = SharedSlots(memory_fd, job.slot_bytes, job.num_slots)
            for _ in range(num_workers):
                self._workers.append(start_worker(memory_fd))
            main_program = preparation(payload)
            for worker in self._workers:
                with suppress(BrokenPipeError):
                    worker.connection.send(main_program)
                    worker.connection.send_bytes(payload)
            self._poll = select.poll()
            self._by_fd = {worker.connection.fileno(): worker for worker in self._workers}
            self._by_pidfd = {worker.pidfd: worker for worker in self._workers}
            for worker in self._workers:
                self._poll.register(worker.connection, select.POLLIN)
                self._poll.register(worker.pidfd, select.POLLIN)
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
        return all(worker.process.poll() is None for worker in self._workers)

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
        """
        try:
            return self._wait_for(number, timeout_s)
        except WorkerDiedError as error:
            self.failure = error
            raise

    def _wait_for(self, number: int, timeout_s: float) -> tuple[Answer, int]:
        end_s, num_stopped = time.monotonic() + timeout_s, 0
        while number not in self.answers:
            worker = self._owner(number)
            if self.failure is not None:
                raise self.failure
            # poll() reports an answer or the end of a process at once; _LOOK_S is only the
            # interval at which a stopped worker and the timeout are looked for.
            if self._collect(0.0 if worker.has_ended else _LOOK_S):
                continue
            self._require_alive(worker, number)
            num_stopped = num_stopped + 1 if worker.is_stopped else 0
            if num_stopped >= _STOPPED_LOOKS:
                raise WorkerDiedError(
                    f"loader worker {worker.process.pid} is stopped (SIGSTOP) while it should load"
                    f" {_describe(worker, number)}; continue or kill it, and restore the state"
                )
            if time.monotonic() > end_s:
                raise WorkerDiedError(
                    f"loader worker {worker.process.pid} has not loaded {_describe(worker, number)}"
                    f" within {timeout_s:g} s; raise timeout_s if samples take that long"
                )
        return self.answers.pop(number)

    def close(self) -> None:
        """End all processes; safe to call twice. Lent slots stay valid."""
        self._finalizer()

    def _owner(self, number: int) -> Worker:
        return next(worker for worker in self._workers if number in worker.unanswered)

    def _collect(self, wait_s: float) -> bool:
        """Take all answers that have come, waiting for the first; return whether there was any."""
        got = False
        for fd, _ in self._poll.poll(wait_s * 1000):
            if fd in self._by_fd:
                got |= self._receive(self._by_fd[fd])
            else:
                self._poll.unregister(fd)  # a pidfd stays readable after the end
                self._by_pidfd[fd].has_ended = True
        return got

    def _receive(self, worker: Worker) -> bool:
        """Take one answer; return whether there was one."""
        try:
            answer: Answer = load(worker.connection.recv_bytes())
        except (EOFError, OSError):
            # The process is dead; its pidfd reports that. The closed connection stays readable.
            with suppress(KeyError, ValueError):
                self._poll.unregister(worker.connection)
            return False
        if answer.number < 0:
            self.failure = answer.error
            return True
        question = worker.unanswered.pop(answer.number)
        self.answers[answer.number] = answer, question.slot
        self.num_reread = max(self.num_reread, answer.num_reread)
        return True

    def _require_alive(self, worker: Worker, number: int) -> None:
        status = worker.process.poll()
        if status is None:
            return
        # Answers that the worker sent before it died are still in the pipe.
        while self._collect(0.0):
            pass
        if number in self.answers:
            return
        how = ending(status, self._kills.has_grown())
        raise WorkerDiedError(
            f"loader worker {worker.process.pid} {how} while it should load"
            f" {_describe(worker, number)}; what was handed over before is good: restore the state"
        )


def _check_memory(job: LoaderJob, num_workers: int) -> None:
    free_bytes = free_group_bytes()
    need_bytes = job.slot_bytes * job.num_slots + num_workers * _WORKER_BYTES
    if free_bytes is not None and need_bytes > free_bytes:
        raise MemoryLimitError(
            f"{num_workers} workers and {job.num_slots} slots of {job.slot_bytes} bytes need"
            f" {need_bytes} bytes, the control group leaves {free_bytes}; raise its limit, or lower"
            " num_workers, prefetch, window_bytes or max_bytes"
        )


def _describe(worker: Worker, number: int) -> str:
    task = worker.unanswered[number].task
    return f"window {task.window} of lane {task.lane} in epoch {task.epoch}"

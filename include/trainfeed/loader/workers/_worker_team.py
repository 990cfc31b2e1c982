"""Worker processes together: asked, watched, ended."""

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


# What a process takes besides slots: interpreter, numpy, codecs.
_WORKER_BYTES: Final = 64 << 20
_LOOK_S: Final = 1.0
_STOPPED_LOOKS: Final = 3
# Questions per worker that its socket holds for certain. With more, a question and an answer could
# wait for each other for ever.
_MAX_UNANSWERED: Final = 32


class WorkerPool:
    """Processes that answer questions, and the slots in which they do.

    Args:
        job: What they are told.
        num_workers: How many.

    Attributes:
        slots: The shared memory.
        ledger: Which slots are free.
        answers: Those that have come and were not asked for yet, with their slots.
        owner: Id of the process that started the workers; a fork of it cannot use them.

    Raises:
        ConfigError: The dataset cannot be sent to another process, or this one is a worker that
            is only importing the main program.
        MemoryLimitError: The slots do not fit the control group's memory.
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
        """Send a question to the worker that has least to do."""
        worker = min(self._workers, key=lambda worker: len(worker.unanswered))
        worker.unanswered[question.number] = question
        # The caller that waits for the answer finds the process dead, and can say more.
        with suppress(BrokenPipeError, ConnectionResetError):
            worker.connection.send(question)

    @property
    def is_usable(self) -> bool:
        """Whether this process has started the workers, and all of them live."""
        if os.getpid() != self.owner:
            return False
        return all(worker.process.poll() is None for worker in self._workers)

    @property
    def is_idle(self) -> bool:
        """Whether no question is open and no answer unread."""
        return not self.answers and not any(worker.unanswered for worker in self._workers)

    @property
    def num_open(self) -> int:
        """How many questions are open or answered and not taken."""
        return len(self.answers) + sum(len(worker.unanswered) for worker in self._workers)

    @property
    def is_busy(self) -> bool:
        """Whether every worker has as many questions as it may."""
        return min(len(worker.unanswered) for worker in self._workers) >= _MAX_UNANSWERED

    def wait_for(self, number: int, timeout_s: float) -> tuple[Answer, int]:
        """Return an answer and the slot it is in.

        Raises:
            WorkerDiedError: Its worker is dead, stopped, or silent for ``timeout_s``. A second
                question fails at once.
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
        """Take what has been answered, waiting for the first; return whether there was any."""
        got = False
        for fd, _ in self._poll.poll(wait_s * 1000):
            if fd in self._by_fd:
                got |= self._receive(self._by_fd[fd])
            else:
                self._poll.unregister(fd)  # it would be reported for ever
                self._by_pidfd[fd].has_ended = True
        return got

    def _receive(self, worker: Worker) -> bool:
        """Take one answer; return whether there was one."""
        try:
            answer: Answer = load(worker.connection.recv_bytes())
        except (EOFError, OSError):
            # The process is dead: its descriptor says so too, and goes on saying it.
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
        # What it had answered before it died is still in the pipe.
        while self._collect(0.0):
            pass
        if number in self.answers:
            return
        how = ending(status, self._kills.has_grown())
        raise WorkerDiedError(
            f"loader worker {worker.process.pid} {how} while it should load"
            f" {_describe(worker, number)}; earlier batches are good: restore the state"
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

"""A worker process that stays with one owner, so that its state outlives a job.

The pool gives each job any idle worker. A model takes long to load, and must be replaced as a
whole; so its owner keeps one worker, and ends the worker with the model.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from trainfeed.errors import EngineError
from trainfeed.memory_group import KillCount
from trainfeed.pipeline.workers._worker_death import WorkerLimits
from trainfeed.pipeline.workers._worker_pool import Watch, death, new_worker

if TYPE_CHECKING:
    from trainfeed.pipeline.workers._worker_job import Job

__all__ = ["OwnWorker"]

_Result = TypeVar("_Result")


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
        kills = KillCount()
        try:
            try:
                self._worker.submit(job)
            except OSError:
                raise death(self._worker, kills) from None
            return Watch[_Result]([self._worker], limits, _ignore, kills).results()[0]
        finally:
            if not self._worker.is_idle:
                self._worker.kill()


def _ignore(index: int) -> None:
    """Take the number of a range that is done: jobs of own workers have no ranges."""

"""The limits of a worker for a job, and the exception for a worker that died."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from trainfeed.pipeline.workers._worker_protocol import LastSeen

__all__ = ["Death", "DeathCause", "WorkerLimits"]


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


class Death(Exception):  # noqa: N818 - what happened, to be told with the names of things
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

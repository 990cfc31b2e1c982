"""What a worker may take for a job, and how it ends when it takes more, or is ended otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from trainfeed.pipeline.workers._worker_protocol import LastSeen

__all__ = ["Death", "DeathCause", "WorkerLimits"]


@dataclass(frozen=True)
class WorkerLimits:
    """What a worker may take for a job.

    Attributes:
        time_s: Seconds.
        memory_bytes: Resident memory.
    """

    time_s: float
    memory_bytes: int


class DeathCause(StrEnum):
    """What a worker may end of, before it is done.

    Attributes:
        EXIT: It ended itself.
        SIGNAL: A signal ended it.
        TIME: It took longer than it may.
        MEMORY: It took more memory than it may.
    """

    EXIT = "exit"
    SIGNAL = "signal"
    TIME = "time"
    MEMORY = "memory"


class Death(Exception):  # noqa: N818 - what happened, to be told with the names of things
    """A worker ended, or was ended, before it was done.

    Attributes:
        cause: What the worker ended of.
        detail: Exit status, signal number, or bytes.
        place: Where the worker was when it was seen last.
        printed: The end of what it has printed, or the stack of a function that did not come back.
        for_want_of_memory: Whether the kernel ended it because there was no memory left, as far as
            its control group tells; None where that is probable and nobody counts.
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

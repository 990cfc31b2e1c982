"""What a worker process and its parent agree on; light, so that workers are started early."""

from __future__ import annotations

import mmap
import signal
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from trainfeed.errors import TrainFeedError

__all__ = [
    "NOWHERE",
    "PROGRESS_BYTES",
    "STACK_SIGNAL",
    "JobCrashed",
    "JobDone",
    "JobFailed",
    "JobReport",
    "JobStarted",
    "LastSeen",
    "RangeDone",
    "WorkerPlace",
    "WorkerReport",
]

# Makes a worker write where it is to its standard error, even inside a loop of C code.
STACK_SIGNAL: Final = signal.SIGUSR1
NOWHERE: Final = -1

_NUMBERS: Final = 4
_TEXT_BYTES: Final = 4096 - 8 * _NUMBERS
PROGRESS_BYTES: Final = 8 * _NUMBERS + _TEXT_BYTES


@dataclass(frozen=True)
class JobStarted:
    """The worker has the job and begins: its time runs from now on."""


@dataclass(frozen=True)
class RangeDone:
    """A range of the plan is done; ``index`` is its place among those of the plan."""

    index: int


@dataclass(frozen=True)
class JobDone:
    """The job has come to its end with a result."""

    result: object


@dataclass(frozen=True)
class JobFailed:
    """The job has raised an error of trainfeed."""

    error: TrainFeedError


@dataclass(frozen=True)
class JobCrashed:
    """The job has raised something else; ``stack`` is the traceback as text."""

    stack: str


# What ends a job, and all that a worker sends.
JobReport: TypeAlias = JobDone | JobFailed | JobCrashed
WorkerReport: TypeAlias = JobStarted | RangeDone | JobReport


class LastSeen(NamedTuple):
    """Where a worker was when it was seen last; None for what is not known.

    Attributes:
        range_index: Range of the plan.
        first: First offset of the batch.
        last: Last offset of the batch.
        record: Offset of the record.
    """

    range_index: int | None
    first: int | None
    last: int | None
    record: int | None


class WorkerPlace:
    """Where a worker is, in memory that its parent shares and reads after its death.

    Args:
        file: Descriptor of ``PROGRESS_BYTES`` of memory.
    """

    def __init__(self, file: int) -> None:
        self._memory = mmap.mmap(file, PROGRESS_BYTES)
        whole = memoryview(self._memory)
        self._view = whole[: 8 * _NUMBERS].cast("q")
        self._text = whole[8 * _NUMBERS :]

    def begin(self, index: int) -> None:
        """Say which range of the plan comes now."""
        self._view[0], self._view[1], self._view[2], self._view[3] = index, *[NOWHERE] * 3

    def leave(self, text: str) -> None:
        """Leave a text, cut to about 4 KB, that ends the job: a forked child has no other way."""
        data = text.encode()[: _TEXT_BYTES - 1]
        self._text[: len(data) + 1] = data + b"\0"

    def take(self) -> str:
        """Return the text that was left, and drop it; empty when there is none."""
        data, _, _ = bytes(self._text).partition(b"\0")
        self._text[:1] = b"\0"
        return data.decode(errors="replace")

    def batch(self, source: str, first: int, last: int) -> None:  # noqa: ARG002 - the range says it
        """Say that records of offsets ``first`` to ``last`` come now."""
        self._view[1], self._view[2], self._view[3] = first, last, NOWHERE

    def record(self, offset: int) -> None:
        """Say which record comes now."""
        self._view[3] = offset

    def read(self) -> LastSeen:
        """Return where the worker is."""
        return LastSeen(*(None if number == NOWHERE else number for number in self._view))

    def close(self) -> None:
        """Release the memory."""
        self._view.release()
        self._text.release()
        self._memory.close()

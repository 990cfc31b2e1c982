"""Messages and shared memory between a worker process and its parent; imports nothing heavy."""

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

# The signal makes a worker write its Python stack to standard error, even inside C code.
STACK_SIGNAL: Final = signal.SIGUSR1
NOWHERE: Final = -1

_NUMBERS: Final = 4
_TEXT_BYTES: Final = 4096 - 8 * _NUMBERS
PROGRESS_BYTES: Final = 8 * _NUMBERS + _TEXT_BYTES


@dataclass(frozen=True)
class JobStarted:
    """The worker has received the job and begins; its time runs from now on."""


@dataclass(frozen=True)
class RangeDone:
    """A range is done; ``index`` is its index in the plan's ranges."""

    index: int


@dataclass(frozen=True)
class JobDone:
    """The job has ended with a result."""

    result: object


@dataclass(frozen=True)
class JobFailed:
    """The job has raised an error of trainfeed."""

    error: TrainFeedError


@dataclass(frozen=True)
class JobCrashed:
    """The job has raised any other error; ``stack`` is the traceback as text."""

    stack: str


# The reports that end a job, and all reports of a worker.
JobReport: TypeAlias = JobDone | JobFailed | JobCrashed
WorkerReport: TypeAlias = JobStarted | RangeDone | JobReport


class LastSeen(NamedTuple):
    """The last known position of a worker; None for unknown parts.

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
    """The position of a worker in shared memory, which the parent can read after its death.

    The memory holds four int64 (range, first and last offset of the batch, record; -1 for unknown),
    then a text that ends with a NUL byte.

    Args:
        file: Descriptor of ``PROGRESS_BYTES`` of memory.
    """

    def __init__(self, file: int) -> None:
        self._memory = mmap.mmap(file, PROGRESS_BYTES)
        whole = memoryview(self._memory)
        self._view = whole[: 8 * _NUMBERS].cast("q")
        self._text = whole[8 * _NUMBERS :]

    def begin(self, index: int) -> None:
        """Record the range that comes next, by its index in the plan."""
        self._view[0], self._view[1], self._view[2], self._view[3] = index, *[NOWHERE] * 3

    def leave(self, text: str) -> None:
        """Leave a text for the worker, cut to about 4 KB: the only way out for a forked child."""
        data = text.encode()[: _TEXT_BYTES - 1]
        self._text[: len(data) + 1] = data + b"\0"

    def take(self) -> str:
        """Return the text of ``leave`` and clear it; empty if there is none."""
        data, _, _ = bytes(self._text).partition(b"\0")
        self._text[:1] = b"\0"
        return data.decode(errors="replace")

    def batch(self, source: str, first: int, last: int) -> None:  # noqa: ARG002 - the range says it
        """Record that the offsets ``first`` to ``last`` come next."""
        self._view[1], self._view[2], self._view[3] = first, last, NOWHERE

    def record(self, offset: int) -> None:
        """Record the offset of the record that comes next."""
        self._view[3] = offset

    def read(self) -> LastSeen:
        """Return the position of the worker."""
        return LastSeen(*(None if number == NOWHERE else number for number in self._view))

    def close(self) -> None:
        """Release the memory."""
        self._view.release()
        self._text.release()
        self._memory.close()

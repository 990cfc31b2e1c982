"""Messages, jobs and shared memory between a worker process and its parent, and its descendants.

Nothing heavy is imported here, because both sides start with it.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

from trainfeed.core.process_ties import has_ended
from trainfeed.errors import TrainFeedError

# --- Messages and shared memory between a worker process and its parent; imports nothing heavy

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
        """Leave a text for the worker, cut to about 4 KB: a forked child has no other channel."""
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


# --- The protocol of a job for a worker process, and the worker's state between jobs

_Result_co = TypeVar("_Result_co", covariant=True)


@dataclass
class Desk:
    """The state of a worker that a job uses, kept from one job to the next.

    Attributes:
        place: Shared memory in which the worker records its position.
        on_piece: Called with the number of every range that is done.
        functions: The function of the last job, by everything that determines it.
    """

    place: WorkerPlace
    on_piece: Callable[[int], object]
    functions: dict[Hashable, object] = field(default_factory=dict)


class Job(Protocol[_Result_co]):
    """A piece of work that is sent to a worker by pickle."""

    @property
    def label(self) -> str:
        """Name of the job in logs."""

    def run(self, desk: Desk) -> _Result_co:
        """Do the work and return the result.

        Raises:
            TrainFeedError: The parent raises it as its own.
        """


# --- Finds and ends the processes that a worker's functions have started, daemons included

# Name of the variable that holds the token.
VARIABLE: Final = "TRAINFEED_WORKER"

_PR_SET_CHILD_SUBREAPER: Final = 36
# The search is repeated, because a process may start others during it.
_MOST_ROUNDS: Final = 20
_KIB: Final = 1024


def adopt_orphans() -> None:
    """Become the parent of every descendant of this process whose own parent ends."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


class Family:
    """A worker, and the processes that its functions have started.

    Args:
        worker: Process id of the worker, the leader of its group.
        token: Value of ``TRAINFEED_WORKER`` in its environment.
    """

    def __init__(self, worker: int, token: str) -> None:
        self._worker = worker
        self._entry = f"{VARIABLE}={token}".encode()

    def memory_bytes(self) -> int:
        """Return the memory of the worker and its descendants in bytes; shared pages count once.

        Without descendants this is the resident memory of the worker; 0 if the worker is gone.
        """
        pids = list(_descendants(self._worker))
        if not pids:
            return _field(self._worker, "status", b"VmRSS:")
        # Pss divides a page among the processes that share it, so the sum counts it once.
        return sum(_field(pid, "smaps_rollup", b"Pss:") for pid in [self._worker, *pids])

    def end(self) -> None:
        """End the worker and its descendants; the caller has not reaped the worker yet."""
        # The order matters. First the group is stopped: a stopped process starts no others, and
        # does not reap its children, so their ids cannot be reused while they are killed. Then
        # descendants are killed, then the group, and last the processes found by the token.
        self._signal_group(signal.SIGSTOP)
        for _ in range(_MOST_ROUNDS):
            if not _kill(_descendants(self._worker)):
                break
        self._signal_group(signal.SIGKILL)
        for _ in range(_MOST_ROUNDS):
            if not _kill(self._marked()):
                break

    def _signal_group(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._worker, number)

    def _marked(self) -> Iterator[int]:
        """Yield the processes, except the worker, whose environment holds the token."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and int(entry.name) != self._worker:
                with suppress(OSError):  # of another user, or gone
                    if self._entry in (entry / "environ").read_bytes().split(b"\0"):
                        yield int(entry.name)


def _kill(pids: Iterator[int]) -> bool:
    """Kill processes; return whether any of them was still alive."""
    found = False
    for pid in pids:
        if not has_ended(pid):
            found = True
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    return found


def _descendants(pid: int) -> Iterator[int]:
    """Yield the children of a process, their children, and so on."""
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                for child in (thread / "children").read_bytes().split():
                    yield int(child)
                    yield from _descendants(int(child))


def _field(pid: int, file: str, name: bytes) -> int:
    """Return a value in KiB from a file of /proc, as bytes; 0 if the process is gone."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/{file}").read_bytes().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * _KIB
    return 0

"""A worker process of the local engine: runs user functions where they can do no harm.

Started by ``_engine`` with a socket, on which jobs come and reports go. It dies with its parent:
the kernel ends it when the parent is gone, whatever the function is doing.
"""

from __future__ import annotations

import ctypes
import faulthandler
import mmap
import os
import signal
import sys
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Final

import pyarrow as pa

from trainfeed.build._group import Group
from trainfeed.build._ref import PlanRef
from trainfeed.build._stage import Stage
from trainfeed.build._user_function import UserFunction
from trainfeed.config import Environment
from trainfeed.errors import TrainFeedError
from trainfeed.spec import DatasetSpec
from trainfeed.storage import Location, posix

__all__ = ["LAST_REPORTS", "PROGRESS_BYTES", "STACK_SIGNAL", "Job", "Place", "main"]

# Makes the process write where it is to its standard error, even inside a loop of C code.
STACK_SIGNAL: Final = signal.SIGUSR1
PROGRESS_BYTES: Final = 32
# What the report begins with that ends a job.
LAST_REPORTS: Final = ("done", "error", "bug")
_PR_SET_PDEATHSIG: Final = 1
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_HUGE_BYTES: Final = 1 << 30
_NOWHERE: Final = -1


@dataclass(frozen=True)
class Job:
    """What a worker is to do: run the function over ranges of a plan.

    Attributes:
        spec: The data set.
        env: Where things are.
        ref: The plan.
        ranges: Indices into the plan's ranges.
        limit_bytes: Memory that the samples of a run may take.
        target: URI that the names of the files it writes begin with.
    """

    spec: DatasetSpec
    env: Environment
    ref: PlanRef
    ranges: list[int]
    limit_bytes: int
    target: str


class Place:
    """Where a worker is, in memory that its parent shares and reads after its death.

    Args:
        file: Descriptor of ``PROGRESS_BYTES`` of memory.
    """

    def __init__(self, file: int) -> None:
        self._memory = mmap.mmap(file, PROGRESS_BYTES)
        self._view = memoryview(self._memory).cast("q")

    def begin(self, index: int) -> None:
        """Say which range of the plan comes now."""
        self._view[0], self._view[1], self._view[2], self._view[3] = index, *[_NOWHERE] * 3

    def batch(self, source: str, first: int, last: int) -> None:  # noqa: ARG002 - the range says it
        """Say that records of offsets ``first`` to ``last`` come now."""
        self._view[1], self._view[2], self._view[3] = first, last, _NOWHERE

    def record(self, offset: int) -> None:
        """Say which record comes now."""
        self._view[3] = offset

    def read(self) -> tuple[int | None, int | None, int | None, int | None]:
        """Return range, first and last offset, record; None for what is not known."""
        index, first, last, record = (None if v == _NOWHERE else v for v in self._view)
        return index, first, last, record

    def close(self) -> None:
        """Release the memory."""
        self._view.release()
        self._memory.close()


def main(channel: int, progress: int, parent: int) -> None:
    """Do jobs until the parent closes its end of the socket.

    Args:
        channel: Descriptor of the socket.
        progress: Descriptor of the memory for ``Place``.
        parent: Process id of the parent.
    """
    _end_with(parent)
    # Ctrl-C goes to all processes of a terminal; the parent ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.register(STACK_SIGNAL, all_threads=False)
    # One worker is one core's worth of work; there are several of them.
    pa.set_cpu_count(1)
    # Memory of one block serves the next; asking the kernel anew costs more than sorting does.
    libc = ctypes.CDLL(None)
    libc.mallopt(_M_MMAP_THRESHOLD, _HUGE_BYTES)
    libc.mallopt(_M_TRIM_THRESHOLD, _HUGE_BYTES)
    connection, place = Connection(channel), Place(progress)
    functions: dict[Any, UserFunction] = {}
    while True:
        try:
            job = connection.recv()
        except EOFError:
            return
        if job is None:
            pa.default_memory_pool().release_unused()
            libc.malloc_trim(0)
            continue
        connection.send(("started", None))
        connection.send(_report(job, place, connection, functions))


def _end_with(parent: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # It may have died before the call above.
    if os.getppid() != parent:
        sys.exit(f"the parent {parent} is gone")


def _report(
    job: Job, place: Place, connection: Connection, functions: dict[Any, UserFunction]
) -> tuple[str, Any]:
    """Return ``done`` and what was made, ``error`` and the error, or ``bug`` and a traceback."""
    place.begin(_NOWHERE)
    try:
        return "done", _run(job, place, connection, functions)
    except TrainFeedError as error:
        return "error", error
    except BaseException:  # noqa: BLE001 - whatever it is, the parent has to hear of it
        return "bug", traceback.format_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _run(
    job: Job, place: Place, connection: Connection, functions: dict[Any, UserFunction]
) -> dict[str, Any]:
    stage = Stage.open(job.spec, job.env, job.ref)
    stage.check_code()
    with posix.map_errors(stage.folder.path):
        group = Group(
            stage,
            _function(stage, functions),
            job.limit_bytes,
            target=Location.parse(job.target),
            progress=place,
        )
        for index in job.ranges:
            place.begin(index)
            group.process(stage.plan.ranges[index])
            connection.send(("piece", index))
        return group.finish(job.ranges)


def _function(stage: Stage, functions: dict[Any, UserFunction]) -> UserFunction:
    """Return the function, the one of the last job when code and lookups are the same."""
    plan = stage.plan
    lookups = tuple(sorted(plan.lookups.items()))
    key = (str(stage.spec.folder), plan.code["digest"], stage.spec.preprocess.function, lookups)
    if key not in functions:
        functions.clear()
        functions[key] = UserFunction(stage.spec, plan.lookups)
    return functions[key]

"""Finds and ends the processes that a worker's functions have started, daemons included.

A worker is a subreaper: it becomes the parent of orphans below it, so a daemon that left the
worker's group and session is still a descendant. When the worker itself has died, this tree is
gone. The processes are then found by a token in the worker's environment, which children inherit.
Only a daemon with another environment that outlives a killed worker escapes.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from trainfeed.process_ties import has_ended

__all__ = ["VARIABLE", "Family", "adopt_orphans"]

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

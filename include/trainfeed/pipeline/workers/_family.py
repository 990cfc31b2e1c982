"""The processes that a worker's functions have started, wherever they have gone.

A worker adopts the orphans below it, so a daemon that left its group and its session is still its
descendant. Once the worker itself has died nothing leads from it to them any more: then they are
found by a token that the worker's environment holds and that its children inherit. Only a daemon
that got another environment *and* outlived a worker that was killed escapes.
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
# A process that starts others while it is looked for is caught in the next round.
_MOST_ROUNDS: Final = 20
_KIB: Final = 1024


def adopt_orphans() -> None:
    """Become the parent of every descendant of this process whose own parent ends."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


class Family:
    """A worker, and what its functions have started.

    Args:
        worker: Process id of the worker, the leader of its group.
        token: What its environment holds as ``TRAINFEED_WORKER``.
    """

    def __init__(self, worker: int, token: str) -> None:
        self._worker = worker
        self._entry = f"{VARIABLE}={token}".encode()

    def memory_bytes(self) -> int:
        """Return the memory of the worker and its descendants; shared pages count once.

        Without descendants it is the resident memory of the worker; 0 when the worker is gone.
        """
        pids = list(_descendants(self._worker))
        if not pids:
            return _field(self._worker, "status", b"VmRSS:")
        return sum(_field(pid, "smaps_rollup", b"Pss:") for pid in [self._worker, *pids])

    def end(self) -> None:
        """End the worker and its descendants; the caller has not reaped the worker yet."""
        # What is stopped starts nothing, and the ids of its children cannot be given to others.
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
        """Yield the processes, the worker left out, whose environment holds the token."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and int(entry.name) != self._worker:
                with suppress(OSError):  # of another user, or gone
                    if self._entry in (entry / "environ").read_bytes().split(b"\0"):
                        yield int(entry.name)


def _kill(pids: Iterator[int]) -> bool:
    """Kill processes; returns whether any of them was still alive."""
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
    """Return a number of KiB from a file of the kernel, as bytes; 0 when the process is gone."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/{file}").read_bytes().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * _KIB
    return 0

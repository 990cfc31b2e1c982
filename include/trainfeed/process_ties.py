"""What one process has to do with another: it ends with its parent, it is stopped, it has ended.

Light, because processes are tied to their parent before they import anything slow.
"""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path
from typing import Final

__all__ = ["has_ended", "is_stopped", "signal_name", "start_ticks", "tie_to_parent"]

_PR_SET_PDEATHSIG: Final = 1
# Of /proc/<pid>/stat, behind the name: the state, and when the process started.
_STATE_FIELD: Final = 0
_START_FIELD: Final = 19


def tie_to_parent(parent: int) -> bool:
    """Let the kernel kill this process, even a stopped one, when the one that started it dies.

    The kernel watches the thread that started this process, not the whole process: a thread that
    ends takes it along.

    Args:
        parent: Process id of the one that started this process, as it says of itself: the first
            parent that a process sees may be the one that adopts orphans.

    Returns:
        False if the parent died before the kernel was told; nothing ends this process then.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent


def is_stopped(pid: int) -> bool:
    """Return whether a signal or a debugger has stopped a process; False if there is none."""
    return _stat(pid)[_STATE_FIELD] in (b"T", b"t")


def has_ended(pid: int) -> bool:
    """Return whether there is no such process, or only what its parent has not reaped yet."""
    return _stat(pid)[_STATE_FIELD] in (b"Z", b"X", b"")


def start_ticks(pid: int) -> int | None:
    """Return when a process started, in ticks since the boot; None when it has ended."""
    fields = _stat(pid)
    return None if fields[_STATE_FIELD] in (b"Z", b"X", b"") else int(fields[_START_FIELD])


def _stat(pid: int) -> list[bytes]:
    """Return what the kernel says of a process behind its name; one empty field if there is none.

    The name is any bytes, closing parentheses and white space included.
    """
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split() or [b""]
    except OSError:
        return [b""]


def signal_name(number: int) -> str:
    """Return the name of a signal as ``kill -l`` has it, real-time signals included."""
    try:
        return signal.Signals(number).name
    except ValueError:
        first, last = signal.SIGRTMIN, signal.SIGRTMAX
        return f"SIGRTMIN+{number - first}" if first < number < last else f"signal {number}"

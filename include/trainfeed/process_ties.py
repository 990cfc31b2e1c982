"""What one process has to do with another: start, tie, state, end, and errors on their way.

Light, because processes are tied to their parent before they import anything slow.
"""

from __future__ import annotations

import ctypes
import json
import os
import pickle  # noqa: TID251 (only to find out whether an exception can travel)
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from trainfeed.errors import LoaderError

__all__ = [
    "ending",
    "has_ended",
    "is_stopped",
    "portable",
    "program",
    "signal_name",
    "start_ticks",
    "tie_to_parent",
]

# Begins in a new interpreter, which knows neither the modules' path nor what to run.
_BOOT: Final = (
    "import importlib, json, sys; sys.path[:], module, arguments = json.loads(sys.argv[1]);"
    " importlib.import_module(module).main(*arguments)"
)


_PR_SET_PDEATHSIG: Final = 1
# Of /proc/<pid>/stat, behind the name: the state, and when the process started.
_STATE_FIELD: Final = 0
_START_FIELD: Final = 19


def program(module: str, arguments: Sequence[int | str], executable: str = "") -> list[str]:
    """Return the command that calls ``main`` of a module in a new interpreter.

    Args:
        module: Its name; it is looked for where this process looks for modules.
        arguments: Those of ``main``.
        executable: The interpreter; that of this process when empty.
    """
    begin = [[os.fspath(path) for path in sys.path], module, list(arguments)]
    return [executable or sys.executable, "-c", _BOOT, json.dumps(begin)]


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


def ending(status: int | None, for_want_of_memory: bool | None = False) -> str:
    """Return how a process has ended, as messages say it behind the name of the process.

    Args:
        status: As ``subprocess`` gives it: the negative number of a signal, or the exit status.
        for_want_of_memory: Whether the kernel has ended a process of its control group for want of
            memory meanwhile; None where nobody counts that.
    """
    if status is None or status >= 0:
        return f"exited with status {status}"
    how = f"was killed by {signal_name(-status)}"
    if status != -signal.SIGKILL or for_want_of_memory is False:
        return how
    if for_want_of_memory is None:
        return f"{how}, perhaps for want of memory"
    return f"{how}, for want of memory in its control group"


def portable(error: BaseException, where: str) -> BaseException:
    """Return an error that can be pickled: a copy of it, or one that says the same.

    Args:
        error: The error, as it was caught.
        where: What a note of the result begins with; the number of this process and the traceback
            follow.

    Returns:
        Of the same type; a ``LoaderError`` with its name and text where that cannot travel.
    """
    trace = "".join(traceback.format_exception(error))
    copy: BaseException | None = None
    with suppress(Exception):  # pickling calls any code of theirs
        copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    if copy is None or type(copy) is not type(error):
        name = f"{type(error).__module__}.{type(error).__qualname__}"
        copy = LoaderError(f"{name}: {error}")
    copy.add_note(f"{where} {os.getpid()}:\n{trace}")
    return copy


def signal_name(number: int) -> str:
    """Return the name of a signal as ``kill -l`` has it, real-time signals included."""
    try:
        return signal.Signals(number).name
    except ValueError:
        first, last = signal.SIGRTMIN, signal.SIGRTMAX
        return f"SIGRTMIN+{number - first}" if first < number < last else f"signal {number}"

"""Relations between processes: start, tie to the parent, state, end, and errors sent home.

The module imports nothing slow, because processes are tied to their parent before such imports.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import pickle  # noqa: TID251 (only to find out whether an exception can travel)
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from trainfeed.errors import LoaderError

# The code that a new interpreter starts with: it sets the module path and calls ``main``.
_BOOT: Final = (
    "import importlib, json, sys; sys.path[:], module, arguments = json.loads(sys.argv[1]);"
    " importlib.import_module(module).main(*arguments)"
)

_PR_SET_PDEATHSIG: Final = 1
# Indices into the fields of /proc/<pid>/stat behind the name: state and start time.
_STATE_FIELD: Final = 0
_START_FIELD: Final = 19
# In place of the fields of a process that /proc does not show to this account, and of its start.
_HIDDEN_STATE: Final = b"?"
HIDDEN: Final = -1
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_PROCESSES: Final = Path("/proc/self/ns/pid")


def program(module: str, arguments: Sequence[int | str], executable: str = "") -> list[str]:
    """Return the command that calls ``main`` of a module in a new interpreter.

    Args:
        module: Name of the module, found with the module path of this process.
        arguments: Arguments of ``main``.
        executable: The interpreter; if empty, that of this process.
    """
    begin = [[os.fspath(path) for path in sys.path], module, list(arguments)]
    # Without "-P", a json.py of the working folder would be imported.
    return [executable or sys.executable, "-P", "-c", _BOOT, json.dumps(begin)]


def tie_to_parent(parent: int) -> bool:
    """Make the kernel kill this process, even if stopped, when its parent dies.

    The kernel watches the thread that started this process, not the whole parent: the end of that
    thread kills this process.

    Args:
        parent: Process id of the parent, from the parent itself: ``os.getppid`` may already give
            the process that adopts orphans.

    Returns:
        False if the parent died before the call; the kernel will not end this process then.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent


def leave_interrupts() -> None:
    """Ignore Ctrl-C from here on: the parent, which it reaches too, ends this process itself.

    The parent has blocked the signal for the time until then.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def is_stopped(pid: int) -> bool:
    """Return whether a signal or a debugger has stopped a process; False if there is none."""
    return _stat(pid)[_STATE_FIELD] in (b"T", b"t")


def has_ended(pid: int) -> bool:
    """Return whether a process does not exist, or has ended and is not reaped yet."""
    return _stat(pid)[_STATE_FIELD] in (b"Z", b"X", b"")


def start_ticks(pid: int) -> int | None:
    """Return when a process started, in ticks since the boot; None if it has ended.

    It is ``HIDDEN`` where the kernel does not show processes of other accounts (``hidepid``).
    """
    fields = _stat(pid)
    if fields[_STATE_FIELD] == _HIDDEN_STATE:
        return HIDDEN
    return None if fields[_STATE_FIELD] in (b"Z", b"X", b"") else int(fields[_START_FIELD])


def process_mark() -> str:
    """Return a text for this process, by which others learn whether it still runs.

    The form is ``<machine>-<process>-<start>``; ``machine`` stands for one boot of one kernel and
    one namespace of process ids.
    """
    pid = os.getpid()
    return f"{_machine()}-{pid}-{start_ticks(pid)}"


def mark_has_ended(mark: str) -> bool | None:
    """Return whether the process of a mark has ended.

    None if it was on another machine, or if the kernel does not show it to this account.
    """
    machine, pid, start = mark.split("-")
    if machine != _machine() or (found := start_ticks(int(pid))) == HIDDEN:
        return None
    return found != int(start)


@cache
def _machine() -> str:
    boot = f"{_BOOT_ID.read_text()} {_PROCESSES.readlink()}"
    return hashlib.sha256(boot.encode()).hexdigest()[:12]


def _stat(pid: int) -> list[bytes]:
    """Return the fields of /proc/<pid>/stat behind the name; [b""] if there is no such process.

    The search is from the end, because the name may contain parentheses and white space.
    """
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split() or [b""]
    except OSError:
        return [b""] if _is_gone(pid) else [_HIDDEN_STATE]


def _is_gone(pid: int) -> bool:
    """Return whether there is no process of this id, also where /proc does not show it."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def ending(status: int | None, for_want_of_memory: bool | None = False) -> str:
    """Return how a process has ended, as text that follows its name in a message.

    Args:
        status: The status of ``subprocess``: the negative number of a signal, or the exit status.
        for_want_of_memory: Whether the kernel has killed a process of its control group for want
            of memory meanwhile; None if there is no such count.
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
    """Return an error that can be pickled: a copy, or another error with the same text.

    Args:
        error: The error, as it was caught.
        where: Beginning of the note that the result gets; the id of this process and the
            traceback follow.

    Returns:
        A copy of the error; if it cannot be pickled, a ``LoaderError`` with its name and text.
    """
    trace = "".join(traceback.format_exception(error))
    copy: BaseException | None = None
    with suppress(Exception):  # pickling runs code of the error's class
        made = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
        # A class whose constructor makes its text would make it a second time.
        if type(made) is type(error) and str(made) == str(error):
            copy = made
    if copy is None:
        name = f"{type(error).__module__}.{type(error).__qualname__}"
        copy = LoaderError(f"{name}: {_text(error)}")
    copy.add_note(f"{where} {os.getpid()}:\n{trace}")
    return copy


def _text(error: BaseException) -> str:
    """Return the text of an error, whose class may fail to give it."""
    try:
        return str(error)
    except Exception as failed:  # noqa: BLE001 (code of the error's class)
        return f"(its text cannot be had: {type(failed).__name__})"


def signal_name(number: int) -> str:
    """Return the name of a signal; a real-time signal counts from SIGRTMIN."""
    try:
        return signal.Signals(number).name
    except ValueError:
        first, last = signal.SIGRTMIN, signal.SIGRTMAX
        return f"SIGRTMIN+{number - first}" if first < number < last else f"signal {number}"

"""Processes that tests start: whether one lives, and waits for its effects."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

__all__ = ["LIMIT_S", "is_running", "oddly_named", "until"]

T = TypeVar("T")

# Less than a test may take in all, so that the message is ours; no machine is that slow.
LIMIT_S = 240.0

# No text in any encoding of today, and with what ends a name in the kernel's account of a process.
_NAME = b"\xff) Z 1 x)"
_SLEEPER = f"""
import ctypes, threading
ctypes.CDLL(None).prctl(15, {_NAME!r}, 0, 0, 0)
print(flush=True)
threading.Event().wait(600)
"""


def until(condition: Callable[[], T]) -> T:
    """Wait until ``condition()`` is true; return what it gave."""
    deadline_s = time.monotonic() + LIMIT_S
    while not (found := condition()):
        assert time.monotonic() < deadline_s, f"not within {LIMIT_S:g} s"
        time.sleep(0.002)
    return found


def is_running(pid: int) -> bool:
    """Whether a process is there and has not ended; a zombie has."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # the latter: reaped since it was opened
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


@contextmanager
def oddly_named() -> Iterator[int]:
    """Give a process whose name, as the kernel has it, is not text."""
    with subprocess.Popen([sys.executable, "-c", _SLEEPER], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert _NAME in Path(f"/proc/{process.pid}/stat").read_bytes()
        try:
            yield process.pid
        finally:
            process.kill()

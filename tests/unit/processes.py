"""Processes that tests start: whether one is there, and waiting for what it does."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

__all__ = ["LIMIT_S", "is_running", "until"]

T = TypeVar("T")

# Less than a test may take in all, so that the message is ours; no machine is that slow.
LIMIT_S = 240.0


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

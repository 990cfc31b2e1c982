"""The garbage collector at rest, while many objects are made that all stay."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Rests:
    """The blocks of all threads in which the collector rests; it goes on when the last one ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blocks = 0
        self._was_enabled = False

    def begin(self) -> None:
        with self._lock:
            if not self._blocks:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._blocks += 1

    def end(self) -> None:
        with self._lock:
            if not self._blocks:
                return  # the block began before a fork
            self._blocks -= 1
            if not self._blocks and self._was_enabled:
                gc.enable()

    def forget(self) -> None:
        """Let the collector of a forked process work: threads with blocks are not in it."""
        if self._blocks and self._was_enabled:
            gc.enable()
        self._lock = threading.Lock()
        self._blocks = 0


_RESTS = _Rests()
os.register_at_fork(after_in_child=_RESTS.forget)


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Keep the garbage collector from running in the block, in all threads.

    For blocks that make many objects which stay: otherwise it walks through them again and again.
    Behind the block it is what it was before, also after an error, and in a process that was forked
    meanwhile.
    """
    _RESTS.begin()
    try:
        yield
    finally:
        _RESTS.end()

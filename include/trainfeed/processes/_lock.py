"""Locks that hold nobody up who cannot help it: in a fork, or inside a garbage collection."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, Final

__all__ = ["new_lock"]

_locks: Final[weakref.WeakSet[Any]] = weakref.WeakSet()


def new_lock() -> threading.RLock:
    """Return a lock that is free in every fork, whoever holds it at that moment.

    A fork goes on with one thread: what another one holds would never be given back there. What the
    lock protects must be good enough for a fork at any moment.

    It is reentrant: a garbage collection inside a locked region may close an iterator, and that a
    loader or a stream with this very lock.
    """
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def _free_all() -> None:
    for lock in list(_locks):
        lock._at_fork_reinit()  # noqa: SLF001 (as the logging module does)


os.register_at_fork(after_in_child=_free_all)

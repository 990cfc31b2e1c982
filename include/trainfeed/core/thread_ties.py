"""Helps threads that work ahead: locks that are free in a fork, one owner, bounded waits."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from typing import Any, Final

from trainfeed.errors import LoaderError

# With this limit, an error of one thread reaches the consumer within a second.
_ERROR_JOIN_S: Final = 0.8

_locks: Final[weakref.WeakSet[Any]] = weakref.WeakSet()


def new_lock() -> threading.RLock:
    """Return a lock that is free in every fork, even if it is held at that moment.

    A fork has only the thread that forked, so locks of other threads would never be released
    there. The data that the lock protects must be usable by a fork at any moment.

    The lock is reentrant: a garbage collection inside a locked region may close an iterator, which
    closes a loader or stream with the same lock.
    """
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def require_owner(owner: int) -> None:
    """Raise in a fork: its copy of a pass has no threads, and would disturb that of the parent.

    Args:
        owner: Id of the process that began the pass.

    Raises:
        LoaderError: This is another process.
    """
    if os.getpid() != owner:
        raise LoaderError(
            f"expected a pass to go on in process {owner}, which began it, got process"
            f" {os.getpid()}, a fork of it; start a pass of its own there, from a state if it has"
            " to begin where this one stands"
        )


def patience_s(most_s: float) -> float:
    """Return how long to wait for threads: ``most_s``, or less while an error is being raised."""
    error = sys.exc_info()[1]
    if isinstance(error, GeneratorExit):
        # The iterator is being closed; the context is the error for which its owner closes it.
        error = error.__context__
    return most_s if error is None else min(most_s, _ERROR_JOIN_S)


def _free_all() -> None:
    for lock in list(_locks):
        lock._at_fork_reinit()  # noqa: SLF001 (as the logging module does)


os.register_at_fork(after_in_child=_free_all)

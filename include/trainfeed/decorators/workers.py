"""Passes that a thread or a process makes ahead of its consumer.

For decorators and loaders; end them by closing the iterator.
"""

from trainfeed.decorators._lock import new_lock
from trainfeed.decorators._owner import require_owner
from trainfeed.decorators._stage import before_fork
from trainfeed.decorators._stream import iter_in_process, iter_in_processes
from trainfeed.decorators._thread import iter_ahead, patience_s

__all__ = [
    "before_fork",
    "iter_ahead",
    "iter_in_process",
    "iter_in_processes",
    "new_lock",
    "patience_s",
    "require_owner",
]

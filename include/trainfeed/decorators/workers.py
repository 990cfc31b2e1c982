"""Passes that a thread or a process makes ahead of its consumer.

For decorators and loaders; end them by closing the iterator.
"""

from trainfeed.decorators._lock import new_lock
from trainfeed.decorators._owner import require_owner
from trainfeed.decorators._stage import before_fork
from trainfeed.decorators._stream import iter_in_process, iter_in_processes, iter_in_turn
from trainfeed.decorators._thread import iter_ahead, patience_s
from trainfeed.decorators._xmap import iter_mapped

__all__ = [
    "before_fork",
    "iter_ahead",
    "iter_in_process",
    "iter_in_processes",
    "iter_in_turn",
    "iter_mapped",
    "new_lock",
    "patience_s",
    "require_owner",
]

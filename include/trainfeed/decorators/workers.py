"""Passes that a thread or a process makes ahead of its consumer.

For decorators and loaders; end them by closing the iterator.
"""

from trainfeed.decorators._reader_stage import before_fork
from trainfeed.decorators._xmap import iter_mapped
from trainfeed.processes import (
    iter_ahead,
    iter_in_process,
    iter_in_processes,
    iter_in_turn,
    new_lock,
    patience_s,
    require_owner,
)

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

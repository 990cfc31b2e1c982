"""Whether retention has deleted nothing between a time and where its boundary was found.

A boundary is searched in what retention has left. When the log begins after the time, the search
finds its start, and the records before it are gone unseen. That the boundary lies behind the log
start is no proof: control markers, holes and a single late record do that, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from trainfeed.sources._choice import minutes_misplaced
from trainfeed.sources._evidence import BLOCK, Proof, View

__all__ = ["prove"]

_MINUTES: Final = 3
_QUARTERS: Final = (0, 1, 2, 3)
_MOST: Final = 20_000


def prove(
    view: View,
    *,
    offset: int,
    at_ms: int,
    log_start: int,
    stamp_ms: int | None,
    reaches: Callable[[int], bool],
) -> Proof | None:
    """Return what shows that nothing was deleted between a time and its boundary.

    Args:
        view: Looks at the partition.
        offset: The boundary.
        at_ms: The time in milliseconds since 1970.
        log_start: First offset that could be read when the boundary was found.
        stamp_ms: Stamp of the record at the boundary; None without one.
        reaches: Tells whether a proved boundary of an earlier time has an offset at or above the
            log start that it is given: then all that came since is still there.

    Returns:
        None when nothing shows it.
    """
    if log_start == 0:
        return "log_start_0"
    if offset == 0:
        return "offset_0"
    if stamp_ms == at_ms:
        return "exact_stamp"
    if reaches(log_start):
        return "earlier_boundary"
    return "minutes" if _holds_minutes(view, log_start, offset, at_ms) else None


def _holds_minutes(view: View, log_start: int, offset: int, at_ms: int) -> bool:
    """Return whether records of several minutes before the time are still there."""
    if _count(view, offset, at_ms) >= _MINUTES:
        return True
    for quarter in _QUARTERS:
        start = log_start + quarter * (offset - log_start) // len(_QUARTERS)
        if start < offset:
            view.read(start, offset, BLOCK)
        if _count(view, offset, at_ms) >= _MINUTES:
            return True
    if log_start < offset:
        view.read(log_start, offset, _MOST)
    return _count(view, offset, at_ms) >= _MINUTES


def _count(view: View, offset: int, at_ms: int) -> int:
    return minutes_misplaced(view.seen().before_offset(offset), after=False, at_ms=at_ms)

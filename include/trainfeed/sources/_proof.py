"""Whether retention has deleted nothing between a time and where its boundary was found.

A boundary is searched in what retention has left. When the log begins after the time, the search
finds its start, and the records before it are gone unseen. That the boundary lies behind the log
start is no proof: control markers, holes and a single late record do that, too. Nor is a log that
begins at 0, where the topic was deleted and created again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.sources._evidence import BLOCK, MINUTE_MS, Proof, Records, View, joined

__all__ = ["Known", "prove"]

_MINUTES: Final = 3
# Stamps of neighbouring records differ by some minutes: what was deleted just before a record of
# the last half hour may come after the time.
_MARGIN_MS: Final = 30 * MINUTE_MS
# Nothing may come for so many times as long as what is left took.
_MOST_PAUSE: Final = 16
# Of records a third of all apart, at least so many follow each other in time.
_LEAST_RISING: Final = 0.75


def _nothing(_: int) -> Proof | None:
    return None


@dataclass(frozen=True)
class Known:
    """What earlier searches have found out about a partition.

    Attributes:
        floor: Boundary of the nearest earlier time that is known.
        ceiling: Boundary of the nearest later time that is known.
        earlier: Tells what boundaries of earlier times show of a log start. A proved one at or
            above it: all that came since is still there. One that was found before the time, in a
            log that ended at or behind it: what was deleted is older than the time.
        is_first_topic: False where the topic may have been created again since the time of the
            boundary. Then a log that begins at 0 does not show that nothing came before it; and
            what lies before the first boundary is in no interval, because those before were built
            from the topic that was deleted.
    """

    floor: int | None = None
    ceiling: int | None = None
    earlier: Callable[[int], Proof | None] = _nothing
    is_first_topic: bool = True


def prove(
    view: View,
    *,
    offset: int,
    at_ms: int,
    log_start: int,
    stamp_ms: int | None,
    known: Known,
) -> Proof | None:
    """Return what shows that nothing was deleted between a time and its boundary.

    Args:
        view: Looks at the partition.
        offset: The boundary.
        at_ms: The time in milliseconds since 1970.
        log_start: First offset that could be read when the boundary was found.
        stamp_ms: Stamp of the record at the boundary; None without one.
        known: What earlier searches have found out.

    Returns:
        None when nothing shows it.
    """
    if known.is_first_topic and 0 in {log_start, offset}:
        return "offset_0" if log_start else "log_start_0"
    if (proof := known.earlier(log_start)) is not None:
        return proof
    if not known.is_first_topic and known.floor is None:
        return None
    if stamp_ms == at_ms:
        return "exact_stamp"
    return "minutes" if _is_stream_before(view, log_start, offset, at_ms) else None


def _is_stream_before(view: View, log_start: int, offset: int, at_ms: int) -> bool:
    """Return whether what is left begins well before the time, and goes on towards it.

    The records next to what was deleted tell, one of each minute. A burst of late records covers
    next to no time, and ends far from the time of the boundary; single late records that came in a
    pause do not follow each other in time. What was deleted before them may come after the time.
    """
    seen: list[Records] = []
    stamps = np.empty(0, np.int64)
    for block in _blocks_left(view, log_start, offset):
        seen.append(block)
        stamps = _one_of_each_minute(joined(seen).stamps)
        if (stamps[:_MINUTES] >= at_ms).any():
            return False
    return len(stamps) >= _MINUTES and _goes_on_towards(at_ms, stamps)


def _goes_on_towards(at_ms: int, stamps: NDArray[np.int64]) -> bool:
    """Return whether stamps begin well before a time, rise, and reach into its neighbourhood."""
    third = len(stamps) // 3
    first, last = np.median(stamps[:third]), np.median(stamps[-third:])
    rises = stamps[third:] > stamps[:-third]
    if first > at_ms - _MARGIN_MS or rises.mean() < _LEAST_RISING:
        return False
    return bool(at_ms - last <= _MOST_PAUSE * (last - first))


def _blocks_left(view: View, log_start: int, offset: int) -> Iterator[Records]:
    """Yield blocks of what is left before a boundary, at growing distance, and the last one."""
    place = reached = log_start
    step = BLOCK
    while place < offset:
        block = view.read(place, offset, BLOCK)
        yield view.believed(block)
        reached = block.reached
        place, step = max(reached, log_start + step), 2 * step
    if reached < offset:
        yield view.believed(view.before(reached, offset, BLOCK))


def _one_of_each_minute(stamps: NDArray[np.int64]) -> NDArray[np.int64]:
    _, rows = np.unique(stamps // MINUTE_MS, return_index=True)
    return stamps[np.sort(rows)]

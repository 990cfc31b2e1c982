"""Proves that retention had deleted nothing between a time and the boundary found for it.

The search sees only the records that retention has left. If the log begins after the time, the
search finds the log start, and the deleted records before it are not noticed. Two simple signs are
no proof: a boundary behind the log start (control markers, holes and a single late record lead to
that, too), and a log that begins at 0 (the topic may have been deleted and created again).
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
# Stamps of neighbouring records differ by some minutes. A record that was deleted just before one
# of the last half hour before the time may therefore be stamped after the time.
_MARGIN_MS: Final = 30 * MINUTE_MS
# Longest pause before the time, as a multiple of the time that the records left take.
_MOST_PAUSE: Final = 16
# Least share of rising pairs, among the pairs of records a third of all records apart.
_LEAST_RISING: Final = 0.75


def _nothing(_: int) -> Proof | None:
    return None


@dataclass(frozen=True)
class Known:
    """The results of earlier searches in a partition.

    Attributes:
        floor: Nearest known boundary of an earlier time.
        ceiling: Nearest known boundary of a later time.
        earlier: Returns the proof that boundaries of earlier times give for a log start, or
            None. ``earlier_boundary``: a proved boundary is at or above the log start, so all
            later records are still there. ``appended_before``: a boundary was found before the
            time, in a log that ended at or behind the log start, so deleted records are older
            than the time.
        is_first_topic: False if the topic may have been created again since the time of the
            boundary. Then a log that begins at 0 does not show that there was nothing before it.
            Records before the first boundary are then in no interval, because earlier intervals
            were built from the deleted topic.
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
    """Return the proof that nothing was deleted between a time and its boundary.

    Args:
        view: The view of the partition.
        offset: The boundary.
        at_ms: The time in milliseconds since 1970.
        log_start: First offset that could be read when the boundary was found.
        stamp_ms: Stamp of the record at the boundary; None without one.
        known: The results of earlier searches.

    Returns:
        The proof, or None.
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
    """Return whether the records left are a stream that begins well before the time.

    The first records after the deleted ones decide, one per minute. If they are such a stream, the
    deleted records are older still. Two other cases look similar, and are no proof: a burst of
    late records, which covers next to no time and ends far from the boundary's time; and single
    late records in a pause, whose stamps do not rise. Records deleted before those may be stamped
    after the time.
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
    """Return whether stamps begin well before a time, rise, and end near it."""
    # Records a third of all apart are compared, because neighbours may be out of order.
    third = len(stamps) // 3
    first, last = np.median(stamps[:third]), np.median(stamps[-third:])
    rises = stamps[third:] > stamps[:-third]
    if first > at_ms - _MARGIN_MS or rises.mean() < _LEAST_RISING:
        return False
    return bool(at_ms - last <= _MOST_PAUSE * (last - first))


def _blocks_left(view: View, log_start: int, offset: int) -> Iterator[Records]:
    """Yield blocks of the records left before a boundary, at growing distance, and the last."""
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

"""Finds the split of a range of records with the fewest minutes on the wrong side of a time.

Minutes are counted, not records: otherwise a burst of thousands of records stamped ahead within one
minute would outvote a quiet day. But single late records of a dense stream may have more distinct
minutes than an hour. Therefore a stray record has no vote: one whose neighbours are a continuous
stream on the other side of the time.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from trainfeed.sources._evidence import MINUTE_MS, Records

__all__ = ["best_split", "minutes_misplaced"]

# Of the ``_NEIGHBOURS`` records before a stray record, and of those behind it, at least ``_MOST``
# are on the other side of the time; the medians of both groups differ by ``_GOES_ON_MS`` at most.
_NEIGHBOURS: Final = 4
_MOST: Final = 3
_GOES_ON_MS: Final = 60 * MINUTE_MS


def best_split(records: Records, at_ms: int) -> int | None:
    """Return the offset of the first record behind the best split for a time.

    Among splits that misplace equally many minutes, it is the first. The record right of the split
    is never one before the time, because moving the split past such a record costs nothing.

    Args:
        records: Records with evidence.
        at_ms: The time in milliseconds since 1970.

    Returns:
        The offset; None if all records come before the time.
    """
    after = records.stamps >= at_ms
    minutes = records.stamps // MINUTE_MS
    votes = ~_is_stray(records.stamps, after)
    # Element k of ``left`` and ``right``: minutes that a split before record k misplaces on its
    # left (late ones, counted at their first record) and right (early ones, at their last).
    left = np.concatenate([[0], np.cumsum(_is_first(minutes, after & votes))])
    early = ~after & votes
    right = np.concatenate([np.cumsum(_is_first(minutes[::-1], early[::-1]))[::-1], [0]])
    candidates = np.append(np.flatnonzero(after), len(records))
    best = int(candidates[np.argmin((left + right)[candidates])])
    return int(records.offsets[best]) if best < len(records) else None


def minutes_misplaced(records: Records, *, after: bool, at_ms: int) -> int:
    """Return how many distinct minutes of ``records`` lie after a time, or before it."""
    late = records.stamps >= at_ms
    return len(np.unique(records.stamps[late if after else ~late] // MINUTE_MS))


def _is_stray(stamps: NDArray[np.int64], after: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return a mask of the records amid a continuous stream on the other side of the time.

    Records next to a burst are not stray: the burst has another time than the records behind it.
    """
    size = _NEIGHBOURS
    found = np.zeros(len(stamps), bool)
    if len(stamps) <= 2 * size:
        return found
    # Row i of ``inner`` has the ``size`` records before it in window i - size, and those behind it
    # in window i + 1; ``others`` counts the records after the time in each window.
    inner = slice(size, len(stamps) - size)
    others = sliding_window_view(after, size).sum(axis=1)
    opposite = np.where(after[inner], size - others[: -size - 1], others[: -size - 1])
    behind = np.where(after[inner], size - others[size + 1 :], others[size + 1 :])
    rows = np.flatnonzero((opposite >= _MOST) & (behind >= _MOST)) + size
    around = sliding_window_view(stamps, size)
    goes_on = np.median(around[rows + 1], axis=1) - np.median(around[rows - size], axis=1)
    found[rows[np.abs(goes_on) <= _GOES_ON_MS]] = True
    return found


def _is_first(minutes: NDArray[np.int64], counted: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return 1 where a minute occurs for the first time among the counted records, else 0."""
    rows = np.flatnonzero(counted)
    _, firsts = np.unique(minutes[rows], return_index=True)
    result: NDArray[Any] = np.zeros(len(minutes), np.int64)
    result[rows[firsts]] = 1
    return result

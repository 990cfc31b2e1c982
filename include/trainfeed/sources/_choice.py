"""The split of a range of records that puts the fewest minutes on the wrong side of a time.

Minutes are counted and not records: a burst of thousands of records stamped ahead within one
minute would outvote a quiet day. Single late records of a dense stream are of more minutes than an
hour has: a record amid a stream that goes on around it, on the other side of the time, has no vote.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from trainfeed.sources._evidence import MINUTE_MS, Records

__all__ = ["best_split", "minutes_misplaced"]

# So many records before and behind one tell what stream it is in; most of them have to agree, and
# the stream to go on within so much time.
_NEIGHBOURS: Final = 4
_MOST: Final = 3
_GOES_ON_MS: Final = 60 * MINUTE_MS


def best_split(records: Records, at_ms: int) -> int | None:
    """Return the offset of the first record that comes after a time.

    Of splits that misplace equally many minutes it is the first. The record right of it is never
    one of before the time: to move past such a record costs nothing.

    Args:
        records: Records with evidence.
        at_ms: The time in milliseconds since 1970.

    Returns:
        None when all of them come before it.
    """
    after = records.stamps >= at_ms
    minutes = records.stamps // MINUTE_MS
    votes = ~_is_stray(records.stamps, after)
    # Element k: how many minutes a split before record k misplaces on its left, and on its right.
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
    """Return which records lie amid a stream on the other side of the time.

    Those around a burst do not: it is of another time than what comes behind it.
    """
    size = _NEIGHBOURS
    found = np.zeros(len(stamps), bool)
    if len(stamps) <= 2 * size:
        return found
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

"""The evidence for a boundary, and the view of the records that the search looks at.

A record *has evidence* for a boundary if its stamp is between 0 and the time of planning: the
record already exists, so a later stamp is wrong, and the stamp -1 means none. A record without
evidence belongs to the interval of the record before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from trainfeed.sources._topic import MAX_STAMP_BYTES, Stamps, Topic

__all__ = ["BLOCK", "MINUTE_MS", "Evidence", "Method", "Proof", "Records", "Side", "View", "joined"]

MINUTE_MS: Final = 60_000
# Records that are read together where a whole range is too long.
BLOCK: Final = 64
# Most offsets that are read in search of records before a place, or of one with evidence.
_FAR: Final = 20_000

Method = Literal["between", "index", "end", "exact", "sampled"]
Proof = Literal[
    "offset_0",
    "log_start_0",
    "exact_stamp",
    "earlier_boundary",
    "appended_before",
    "minutes",
]


@dataclass(frozen=True)
class Side:
    """The records seen on one side of a boundary.

    Attributes:
        first: Offset and stamp (ms) of the first record with evidence; None without one.
        last: Offset and stamp (ms) of the last record with evidence; None without one.
        minutes_wrong: Number of distinct minutes among stamps on the other side of the time.
    """

    first: tuple[int, int] | None
    last: tuple[int, int] | None
    minutes_wrong: int


@dataclass(frozen=True)
class Evidence:
    """The facts from which a boundary follows.

    Attributes:
        clock_ms: Time of the search, milliseconds since 1970; later stamps are no evidence.
        high_watermark: The high watermark; above the last stable offset while a transaction was
            open.
        hint: The answer of the time index; None if it had no such position.
        index_test: The result of the test of an index without such a position against the last
            records; None without a test.
        method: ``between``: the neighbours left no choice; ``index``: the records around the hint
            agree with it; ``end``: no record is stamped at or after the time; ``exact``: the split
            with the fewest misplaced minutes, of all records; ``sampled``: the same, of blocks.
        floor: Boundary of the nearest earlier time that was known; None without one.
        ceiling: Boundary of the nearest later time that was known; None without one.
        left: Records before the boundary that were seen.
        right: Records from the boundary on that were seen.
        without_evidence: Records without evidence among all that were seen.
        proof: The proof that retention had deleted nothing between the time and the boundary, or
            None.
    """

    clock_ms: int
    high_watermark: int
    hint: int | None
    index_test: Literal["passed", "contradicted"] | None
    method: Method
    floor: int | None
    ceiling: int | None
    left: Side
    right: Side
    without_evidence: int
    proof: Proof | None


@dataclass(frozen=True)
class Records:
    """Neighbouring records with evidence.

    Attributes:
        offsets: Ascending, int64 of shape (n,).
        stamps: Milliseconds since 1970, int64 of shape (n,).
    """

    offsets: NDArray[np.int64]
    stamps: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets)

    def from_offset(self, offset: int) -> Records:
        """Return the records from ``offset`` on."""
        rows = self.offsets >= offset
        return Records(self.offsets[rows], self.stamps[rows])

    def before_offset(self, offset: int) -> Records:
        """Return the records before ``offset``."""
        rows = self.offsets < offset
        return Records(self.offsets[rows], self.stamps[rows])


def joined(parts: Sequence[Records]) -> Records:
    """Return the records of all parts in the order of their offsets, each once."""
    offsets = np.concatenate([np.empty(0, np.int64), *(part.offsets for part in parts)])
    stamps = np.concatenate([np.empty(0, np.int64), *(part.stamps for part in parts)])
    offsets, rows = np.unique(offsets, return_index=True)
    return Records(offsets, stamps[rows])


class View:
    """Reads records of one partition, and keeps the stamps of all that it has read.

    Args:
        topic: The open topic.
        partition: Number of the partition.
        clock_ms: Latest stamp that is evidence.
    """

    def __init__(self, topic: Topic, partition: int, clock_ms: int) -> None:
        self._topic = topic
        self._partition = partition
        self._clock_ms = clock_ms
        self._seen: list[Stamps] = []

    def read(self, start: int, end: int, max_records: int, max_bytes: int | None = None) -> Stamps:
        """Return the first records of ``[start, end)``; see ``Topic.read_stamps``."""
        found = self._topic.read_stamps(
            self._partition,
            start,
            end,
            max_records=max_records,
            max_bytes=max_bytes or MAX_STAMP_BYTES,
        )
        self._seen.append(found)
        return found

    def believed(self, found: Stamps) -> Records:
        """Return the records with evidence."""
        rows = (found.stamps >= 0) & (found.stamps <= self._clock_ms)
        return Records(found.offsets[rows], found.stamps[rows])

    def around(self, low: int, offset: int, end: int, count: int) -> tuple[Stamps, Stamps]:
        """Return the last ``count`` records of ``[low, offset)``, the first of ``[offset, end)``.

        The first part may be shorter if offsets are far apart; see ``before``.
        """
        found = self.read(max(low, offset - count), end, 2 * count)
        left, right = _cut(found, offset)
        if len(right.offsets) < count and right.reached < end:
            right = _joined(right, self.read(max(offset, found.reached), end, count))
        if len(left.offsets) < count and offset - count > low:
            left = self.before(low, offset, count)
        return left, right

    def before(self, low: int, offset: int, count: int) -> Stamps:
        """Return the last ``count`` records of ``[low, offset)``; fewer if they are far apart."""
        span = count
        while True:
            start = max(low, offset - span)
            found = self.read(start, offset, max(count, span))
            if len(found.offsets) >= count or start == low or span >= _FAR:
                return Stamps(found.offsets[-count:], found.stamps[-count:], 0, found.reached)
            # Records may be sparse (compaction, markers), so the span grows until they suffice.
            span = min(4 * span, _FAR)

    def look_behind(self, offset: int, end: int) -> None:
        """Read from ``offset`` on until a record has evidence, or ``_FAR`` is reached."""
        position, count = offset, BLOCK
        while position < end and not len(self.seen().from_offset(offset)) and count <= _FAR:
            position = self.read(position, end, count).reached
            count *= 4

    def seen(self) -> Records:
        """Return all records with evidence that were read."""
        return self.believed(self.all_seen())

    def all_seen(self) -> Stamps:
        """Return the stamps of all records that were read."""
        offsets = np.concatenate([np.empty(0, np.int64), *(each.offsets for each in self._seen)])
        stamps = np.concatenate([np.empty(0, np.int64), *(each.stamps for each in self._seen)])
        offsets, rows = np.unique(offsets, return_index=True)
        return Stamps(offsets, stamps[rows], 0, 0)


def _cut(found: Stamps, offset: int) -> tuple[Stamps, Stamps]:
    row = int(np.searchsorted(found.offsets, offset))
    return (
        Stamps(found.offsets[:row], found.stamps[:row], 0, min(offset, found.reached)),
        Stamps(found.offsets[row:], found.stamps[row:], 0, found.reached),
    )


def _joined(first: Stamps, second: Stamps) -> Stamps:
    return Stamps(
        np.concatenate([first.offsets, second.offsets]),
        np.concatenate([first.stamps, second.stamps]),
        0,
        second.reached,
    )

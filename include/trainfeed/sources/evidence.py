"""The evidence for a boundary in a topic, and the proof that retention had deleted nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from trainfeed.sources.topic import MAX_STAMP_BYTES, Stamps, Topic

# --- The evidence for a boundary, and the view of the records that the search looks at

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


def joined(parts: Sequence[Records | Stamps]) -> Records:
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
        """Return the records with evidence: those stamped from 1970 to ``clock_ms``."""
        rows = (found.stamps >= 0) & (found.stamps <= self._clock_ms)
        return Records(found.offsets[rows], found.stamps[rows])

    def around(self, low: int, offset: int, end: int, count: int) -> tuple[Stamps, Stamps]:
        """Return the last ``count`` records of ``[low, offset)``, the first of ``[offset, end)``.

        The first part may be shorter if offsets are far apart; see ``before``.
        """
        found = self.read(max(low, offset - count), end, 2 * count)
        left, right = _cut(found, offset)
        if len(right.offsets) < count and right.reached < end:
            right = _appended(right, self.read(max(offset, found.reached), end, count))
        if len(left.offsets) < count and offset - count > low:
            left = self.before(low, offset, count)
        return left, right

    def before(self, low: int, offset: int, count: int) -> Stamps:
        """Return the last ``count`` records of ``[low, offset)``; fewer if they are far apart.

        Of the last ``count`` offsets all records are read, however large they are.
        """
        span, start = count, max(low, offset - count)
        found = self.read(start, offset, count)
        while found.reached < offset:
            found = _appended(found, self.read(found.reached, offset, count))
        # Records may be sparse (compaction, markers), so the span grows until they suffice.
        while len(found.offsets) < count and start > low and span < _FAR:
            span = min(4 * span, _FAR)
            end, start = start, max(low, offset - span)
            earlier = self.read(start, end, span)
            if earlier.reached < end:
                # Many large records: those next to the ones that were found are further on.
                break
            found = _appended(earlier, found)
        return Stamps(found.offsets[-count:], found.stamps[-count:], 0, found.reached)

    def look_behind(self, offset: int, end: int) -> None:
        """Read from ``offset`` on until a record has evidence, or about ``_FAR`` were read."""
        position, count = offset, BLOCK
        while position < end and not len(self.seen().from_offset(offset)) and count <= _FAR:
            position = self.read(position, end, count).reached
            count *= 4

    def seen(self) -> Records:
        """Return all records with evidence that were read."""
        return self.believed(self.all_seen())

    def all_seen(self) -> Stamps:
        """Return the stamps of all records that were read."""
        found = joined(self._seen)
        return Stamps(found.offsets, found.stamps, 0, 0)


def _cut(found: Stamps, offset: int) -> tuple[Stamps, Stamps]:
    row = int(np.searchsorted(found.offsets, offset))
    return (
        Stamps(found.offsets[:row], found.stamps[:row], 0, min(offset, found.reached)),
        Stamps(found.offsets[row:], found.stamps[row:], 0, found.reached),
    )


def _appended(first: Stamps, second: Stamps) -> Stamps:
    return Stamps(
        np.concatenate([first.offsets, second.offsets]),
        np.concatenate([first.stamps, second.stamps]),
        0,
        second.reached,
    )


# --- Proves that retention had deleted nothing between a time and the boundary found for it

_MINUTES: Final = 3
# Stamps of neighbouring records differ by some minutes. A record that was deleted just before one
# of the last half hour before the time may therefore be stamped after the time.
_MARGIN_MS: Final = 30 * MINUTE_MS
# Longest pause before the time, as a multiple of the time span of the remaining records.
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

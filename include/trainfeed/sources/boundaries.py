"""The boundary of a point in time in the partitions of a topic: read in full, or sampled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from trainfeed.errors import ConfigError
from trainfeed.sources.evidence import (
    BLOCK,
    MINUTE_MS,
    Evidence,
    Known,
    Method,
    Records,
    Side,
    View,
    prove,
)
from trainfeed.sources.topic import OffsetRange, PartitionState, Stamps, Topic, check_available

# --- Finds the split of a range of records with the fewest minutes on the wrong side of a time

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


# --- Finds the boundary of a time in a range that is too long to read every record

# Ranges with at most so many offsets are read completely: a whole range, a part between two blocks.
_MAX_RECORDS: Final = 20_000
_MAX_BETWEEN: Final = 2_000
_PER_DOUBLING: Final = 4
# Numbers of blocks at even distance. A quiet day behind a burst with many times its records must
# not fall between two blocks.
_AT_FIRST: Final = 64
_PER_LEVEL: Final = 24
_BLOCK_BYTES: Final = 1 << 20
# Up to so many records are read without a limit of bytes.
_FEW: Final = 16
_FEW_BYTES: Final = 1 << 30


@dataclass(frozen=True)
class _SampledBlock:
    """Some neighbouring records, with their vote.

    Attributes:
        start: First offset of the block.
        reached: Offset behind the block.
        records: Its records with evidence.
        is_after: Whether their median is at or after the time; None without evidence.
        pace_ms: Time that passes per offset, above 0.
    """

    start: int
    reached: int
    records: Records
    is_after: bool | None
    pace_ms: float


@dataclass(frozen=True)
class _SampleSearch:
    view: View
    at_ms: int

    def exact(self, start: int, end: int, most: int) -> tuple[int | None, bool]:
        """Return the best split of all records, and whether all could be read."""
        if end - start > most:
            return None, False
        limit = _FEW_BYTES if end - start <= _FEW else None
        found = self.view.read(start, end, most, limit)
        if found.reached < end:
            return None, False
        return best_split(self.view.believed(found), self.at_ms), True

    def between(self, places: list[int], end: int) -> int | None:
        """Return the best split of the range that begins at the first of ``places``."""
        blocks = list(self._blocks(places, end))
        left, right = self._neighbours(blocks, end)
        for part, stop in self._parts(blocks, left, right, end):
            found = self._closer(part, stop)
            if found is not None:
                return found
        return None if right == len(blocks) else self._first_after(blocks[right])

    def _blocks(self, places: list[int], end: int) -> Iterator[_SampledBlock]:
        reached = 0
        for place in places:
            start = max(place, reached)
            if start >= end:
                return
            found = self.view.read(start, end, BLOCK, _BLOCK_BYTES)
            reached = found.reached
            yield self._block(start, reached, self.view.believed(found))

    def _block(self, start: int, reached: int, records: Records) -> _SampledBlock:
        if not len(records):
            return _SampledBlock(start, reached, records, None, 0.0)
        ordered = np.sort(records.stamps)
        is_after = bool(_quantile(ordered, 0.5) >= self.at_ms)
        before = int(np.searchsorted(ordered, self.at_ms))
        side = ordered[before:] if is_after else ordered[:before]
        # Elapsed time as twice the middle half of the stamps, without outliers.
        elapsed = 2.0 * (_quantile(side, 0.75) - _quantile(side, 0.25))
        elapsed = min(max(elapsed, 1.0), float(MINUTE_MS * len(side)))
        return _SampledBlock(start, reached, records, is_after, elapsed / (reached - start))

    def _neighbours(self, blocks: list[_SampledBlock], end: int) -> tuple[int, int]:
        """Return the blocks left and right of the best split; -1 or ``len(blocks)`` if none."""
        voting = [index for index, block in enumerate(blocks) if block.is_after is not None]
        starts = [*(block.start for block in blocks), end]
        weights = np.array([blocks[i].pace_ms * (starts[i + 1] - starts[i]) for i in voting])
        after = np.array([blocks[i].is_after for i in voting], bool)
        # Element k of ``left`` and ``right``: weight of the wrong votes left and right of a split
        # before vote k.
        left = np.concatenate([[0.0], np.cumsum(weights * after)])
        right = np.concatenate([np.cumsum((weights * ~after)[::-1])[::-1], [0.0]])
        best = int(np.argmin(left + right))
        return (
            voting[best - 1] if best > 0 else -1,
            voting[best] if best < len(voting) else len(blocks),
        )

    @staticmethod
    def _parts(
        blocks: list[_SampledBlock], left: int, right: int, end: int
    ) -> Iterator[tuple[_SampledBlock, int]]:
        """Yield the blocks that the split may follow, each with the start of the next block."""
        starts = [*(block.start for block in blocks), end]
        for index in sorted({left, right - 1} - {-1}):
            yield blocks[index], starts[index + 1]

    def _closer(self, block: _SampledBlock, end: int) -> int | None:
        """Return the best split from a block on; None if all records up to ``end`` come before."""
        if block.reached >= end:
            return best_split(block.records, self.at_ms)
        found, is_known = self.exact(block.start, end, _MAX_BETWEEN)
        return found if is_known else self.between(_even(block.start, end, _PER_LEVEL), end)

    def _first_after(self, block: _SampledBlock) -> int:
        """Return the offset of the first record after the time, in a block that voted after."""
        split = best_split(block.records, self.at_ms)
        if split is not None:
            return split
        return int(block.records.offsets[np.argmax(block.records.stamps >= self.at_ms)])


def exact_split(view: View, start: int, end: int, at_ms: int) -> tuple[int | None, bool]:
    """Return the best split of all records of a range, if they are few enough to read.

    Args:
        view: The view of the partition.
        start: First offset.
        end: Offset behind the last.
        at_ms: The time in milliseconds since 1970.

    Returns:
        Offset of the first record after the time, None if all come before it; and whether all
        records were read.
    """
    return _SampleSearch(view, at_ms).exact(start, end, _MAX_RECORDS)


def sampled_split(view: View, start: int, end: int, at_ms: int) -> int | None:
    """Return the offset of the first record of ``[start, end)`` that comes after a time.

    Args:
        view: The view of the partition.
        start: First offset.
        end: Offset behind the last.
        at_ms: The time in milliseconds since 1970.

    Returns:
        The offset; None if all records come before the time.
    """
    return _SampleSearch(view, at_ms).between(_growing(start, end), end)


def has_evidence(view: View, start: int, end: int) -> bool:
    """Return whether a record of a range has evidence, of those read before or in some blocks."""
    for place in [start, *_growing(start, end)] if start < end else []:
        if len(view.seen().from_offset(start).before_offset(end)):
            return True
        view.read(place, end, BLOCK, _BLOCK_BYTES)
    return len(view.seen().from_offset(start).before_offset(end)) > 0


def _quantile(ordered: NDArray[np.int64], share: float) -> float:
    """Return what ``np.quantile`` does, without its 0.1 ms.

    Args:
        ordered: Ascending, below 2⁵¹, so that no step is rounded; at least one.
        share: A number of quarters.
    """
    place = share * (len(ordered) - 1)
    row = int(place)
    low, high = int(ordered[row]), int(ordered[min(row + 1, len(ordered) - 1)])
    return low + (high - low) * (place - row)


def _growing(start: int, end: int) -> list[int]:
    count = max(0, int(_PER_DOUBLING * np.log2(max(1.0, (end - start) / BLOCK)))) + 1
    # Distances from ``start`` grow by a factor of 2 with every ``_PER_DOUBLING`` blocks.
    steps = BLOCK * 2 ** (np.arange(count) / _PER_DOUBLING)
    return _places(start, [*(start + steps.astype(int)), *_even(start, end, _AT_FIRST)], end)


def _even(start: int, end: int, count: int) -> list[int]:
    return _places(start, [start + i * (end - start) // count for i in range(count)], end)


def _places(start: int, places: list[int], end: int) -> list[int]:
    """Return the starts of blocks in order, with one block at the start and one at the end."""
    return sorted({start, *(int(at) for at in places if at < end), max(start, end - BLOCK)})


# --- Finds the boundary of a point in time in the partitions of a topic

_HOUR_MS: Final = 3_600_000
# A hint is accepted after a look at ``_AROUND`` records on each side, if at least ``_LEAST`` of
# each have evidence, and of those on the right at least the share ``_SHARE`` is after the time.
_AROUND: Final = 32
_LEAST: Final = 8
_SHARE: Final = 0.75


@dataclass(frozen=True)
class PartitionBoundary:
    """The boundary of one topic partition at a point in time.

    Attributes:
        offset: Offset of the first record at or after the time; the log end if there is none.
        log_start: First offset that could be read when the boundary was found.
        log_end: Last stable offset when the boundary was found.
        record_timestamp_ms: Stamp of the first record from ``offset`` on; None at the log end.
        leader_epoch: Epoch of the partition's leader; None for recorded topics.
        method: ``index``: the time index was right; ``scan``: records were looked at; ``end``:
            no record is stamped at or after the time.
        evidence: The facts behind the boundary; None in a restored file.
    """

    offset: int
    log_start: int
    log_end: int
    record_timestamp_ms: int | None
    leader_epoch: int | None
    method: Literal["index", "scan", "end"]
    evidence: Evidence | None = None

    @property
    def is_settled(self) -> bool:
        """False while an open transaction may hide records that come before the boundary."""
        known = self.evidence
        if known is None or known.high_watermark <= self.log_end or self.offset < self.log_end:
            return True
        return known.ceiling is not None and known.ceiling <= self.log_end

    def require_evidence_agrees(self) -> None:
        """Refuse an offset that cannot follow from the evidence beside it.

        Only a boundary that was restored from manifests has no evidence; it says so little that no
        end of the log, nor a record behind it, follows.

        Raises:
            ValueError: It cannot; the message has the offset and the offsets that are possible.
        """
        known = self.evidence
        if known is None:
            if self.method != "scan" or self.log_end <= self.offset:
                raise ValueError(f"expected evidence beside offset {self.offset}, got none")
            return
        ends = [known.left.first, known.left.last, known.right.first, known.right.last]
        seen = [place[0] for place in ends if place is not None]
        first = known.right.first
        low, high = known.floor or 0, self.log_end
        if known.ceiling is not None:
            high = min(high, known.ceiling)
        # The boundary is the end of the part that was searched if all records come before it, and
        # without an earlier boundary the log start if no record before it has evidence.
        possible = {high} if known.floor is not None else {high, self.log_start}
        if known.method == "between":
            possible |= {max(low, self.log_start)}
        elif known.method != "end" and first is not None:
            possible = {first[0]} if known.method == "index" else possible | {first[0]}
        left = known.left.last is None or known.left.last[0] < self.offset
        right = first is None or self.offset <= first[0]
        is_told = self.method == ("end" if self.offset == self.log_end else _told(known.method))
        if not (left and right and is_told and seen == sorted(seen) and self.offset in possible):
            raise ValueError(
                f"offset {self.offset} (method {self.method}) does not follow from its evidence:"
                f" method {known.method}, last record before it {known.left.last}, first record"
                f" behind it {first}, possible are {sorted(possible)}"
            )


def _told(method: Method) -> Literal["index", "scan"]:
    return "index" if method == "index" else "scan"


class _FoundTime(NamedTuple):
    offset: int
    method: Method
    index_test: Literal["passed", "contradicted"] | None


def find_boundaries(
    topic: Topic,
    timestamp_ms: int,
    *,
    skew_ms: int,
    clock_ms: int,
    known: Mapping[int, Known],
    states: Mapping[int, PartitionState] | None = None,
) -> dict[int, PartitionBoundary]:
    """Find the boundary of every partition of a topic at a time.

    Args:
        topic: The open topic.
        timestamp_ms: The time, milliseconds since 1970 UTC.
        skew_ms: Largest usual distance of stamps around a boundary from its time.
        clock_ms: Time of planning: records that are stamped later are no evidence.
        known: Partition → results of earlier searches.
        states: Starts and ends of the logs; by default those of now.

    Returns:
        The boundaries, each within its floor and ceiling, whether settled or not.

    Raises:
        IngestError: The source does not answer.
        OffsetOutOfRangeError: A log ends before its floor: it was truncated.
        ConfigError: The known boundaries of a partition contradict each other.
    """
    # The states first: a record that arrives between the two requests then lies behind the end.
    states = topic.states() if states is None else states
    hints = topic.offsets_at(dict.fromkeys(states, timestamp_ms))
    found = {}
    for partition, state in states.items():
        search = _BoundarySearch(
            topic=topic,
            partition=partition,
            at_ms=timestamp_ms,
            near_ms=min(skew_ms, _HOUR_MS),
            state=state,
            known=known.get(partition, Known()),
            view=View(topic, partition, clock_ms),
            hint=hints[partition],
            clock_ms=clock_ms,
        )
        found[partition] = search.boundary()
    return found


@dataclass(frozen=True)
class _BoundarySearch:
    topic: Topic
    partition: int
    at_ms: int
    near_ms: int
    state: PartitionState
    known: Known
    view: View
    hint: int | None
    clock_ms: int

    def boundary(self) -> PartitionBoundary:
        """Find the boundary, with the evidence for it."""
        self._check_known()
        found = self._with_leading(self._found())
        if found.offset >= self.state.log_start:
            self.view.look_behind(found.offset, self.state.log_end)
        stamp = _stamp_from(self.view.all_seen(), found.offset)
        return PartitionBoundary(
            offset=found.offset,
            log_start=self.state.log_start,
            log_end=self.state.log_end,
            record_timestamp_ms=stamp if found.offset >= self.state.log_start else None,
            leader_epoch=self.state.leader_epoch,
            method=self._method(found),
            evidence=self._evidence(found, stamp),
        )

    def _method(self, found: _FoundTime) -> Literal["index", "scan", "end"]:
        if found.offset == self.state.log_end:
            return "end"
        return _told(found.method)

    def _check_known(self) -> None:
        """Refuse a log that was truncated, and neighbours in the wrong order."""
        name, state = self.topic.identity.topic, self.state
        low, high = self.known.floor or 0, self.known.ceiling
        if high is not None and low > high:
            raise ConfigError(
                f"topic {name!r} partition {self.partition}: known boundaries contradict each"
                f" other: {low} at an earlier time, {high} at a later one; look into the boundary"
                " files"
            )
        span = OffsetRange(name, self.partition, state.log_end, max(state.log_end, low))
        check_available(span, state.log_start, state.log_end)

    def _found(self) -> _FoundTime:
        # The boundary is in [low, high]. With nothing between them, no search is needed.
        low = max(self.known.floor or 0, self.state.log_start)
        ceiling = self.known.ceiling
        high = self.state.log_end if ceiling is None else min(ceiling, self.state.log_end)
        if high <= low:
            return _FoundTime(low if ceiling is None else min(low, ceiling), "between", None)
        if self.hint is None or self.hint >= high:
            if self._is_end(low, high):
                return _FoundTime(high, "end", "passed")
            return self._by_minutes(low, high, "contradicted")
        offset = self._by_index(low, max(self.hint, low), high)
        if offset is not None:
            return _FoundTime(offset, "index", None)
        return self._by_minutes(max(self.hint, low), high, None)

    def _with_leading(self, found: _FoundTime) -> _FoundTime:
        """Move the boundary to the log start if no record before it has evidence.

        Records without evidence belong to the interval of the record before them. Without an
        earlier boundary and such a record, they would be in no interval at all.
        """
        start = self.state.log_start
        if self.known.floor is not None or has_evidence(self.view, start, found.offset):
            return found
        return found._replace(offset=min(start, found.offset))

    def _is_end(self, low: int, high: int) -> bool:
        """Return whether an index that knows no later record passes a test of the last ones."""
        last = self.view.believed(self.view.before(low, high, _AROUND))
        if not len(last) or (last.stamps >= self.at_ms).any():
            return False
        offset, stamp = int(last.offsets[-1]), int(last.stamps[-1])
        # An index that does not find the last believable record by its own stamp is not reliable.
        found = self.topic.offsets_at({self.partition: stamp})[self.partition]
        return found is not None and found <= offset

    def _by_index(self, low: int, hint: int, high: int) -> int | None:
        """Return the offset for the hint if the records around it agree, else None."""
        before, behind = self.view.around(low, hint, high, _AROUND)
        left, right = self.view.believed(before), self.view.believed(behind)
        # The record at the hint must have evidence itself: it becomes the boundary.
        if min(len(left), len(right)) < _LEAST or behind.offsets[0] != right.offsets[0]:
            return None
        early, late = np.median(left.stamps), np.median(right.stamps)
        is_near = (
            self.at_ms - self.near_ms <= early < self.at_ms <= late <= self.at_ms + (self.near_ms)
        )
        is_after = right.stamps >= self.at_ms
        agrees = is_near and is_after[0] and is_after.mean() >= _SHARE
        return int(right.offsets[0]) if agrees else None

    def _by_minutes(
        self, start: int, high: int, index_test: Literal["contradicted"] | None
    ) -> _FoundTime:
        # All records if they are few, else samples.
        offset, is_exact = exact_split(self.view, start, high, self.at_ms)
        if not is_exact:
            offset = sampled_split(self.view, start, high, self.at_ms)
        method: Method = "exact" if is_exact else "sampled"
        return _FoundTime(high if offset is None else offset, method, index_test)

    def _evidence(self, found: _FoundTime, stamp: int | None) -> Evidence:
        proof = prove(
            self.view,
            offset=found.offset,
            at_ms=self.at_ms,
            log_start=self.state.log_start,
            stamp_ms=stamp,
            known=self.known,
        )
        seen = self.view.seen()
        return Evidence(
            clock_ms=self.clock_ms,
            high_watermark=self.state.high_watermark,
            hint=self.hint,
            index_test=found.index_test,
            method=found.method,
            floor=self.known.floor,
            ceiling=self.known.ceiling,
            left=_side(seen.before_offset(found.offset), after=True, at_ms=self.at_ms),
            right=_side(seen.from_offset(found.offset), after=False, at_ms=self.at_ms),
            without_evidence=len(self.view.all_seen().offsets) - len(seen),
            proof=proof,
        )


def _side(records: Records, *, after: bool, at_ms: int) -> Side:
    pairs = (
        list(zip(records.offsets[[0, -1]], records.stamps[[0, -1]], strict=True))
        if len(records)
        else [None, None]
    )
    first, last = ((int(p[0]), int(p[1])) if p is not None else None for p in pairs)
    return Side(first, last, minutes_misplaced(records, after=after, at_ms=at_ms))


def _stamp_from(seen: Stamps, offset: int) -> int | None:
    row = int(np.searchsorted(seen.offsets, offset))
    return int(seen.stamps[row]) if row < len(seen.stamps) else None

"""Finds the boundary of a point in time in the partitions of a topic.

The broker's time index gives the first position stamped at or after a time. A single record stamped
ahead falsifies every later answer, and an index with empty first segments answers that there is no
such position at all. The answer is therefore only a hint. The search looks at the records around
it; if they contradict the hint, the boundary is the split of the log with the fewest minutes on the
wrong side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np

from trainfeed.errors import ConfigError
from trainfeed.sources._choice import minutes_misplaced
from trainfeed.sources._evidence import Evidence, Method, Records, Side, View
from trainfeed.sources._proof import Known, prove
from trainfeed.sources._sampling import exact_split, has_evidence, sampled_split
from trainfeed.sources._topic import OffsetRange, PartitionState, Stamps, Topic, check_available

__all__ = ["PartitionBoundary", "find_boundaries"]

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
        evidence: The facts behind the boundary; None in older files.
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

        Raises:
            ValueError: It cannot; the message has the offset and the offsets that are possible.
        """
        known = self.evidence
        if known is None:
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

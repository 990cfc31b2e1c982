"""Where a point in time lies in a topic partition.

The broker's time index answers with the first position stamped at or after a time, and one record
stamped years ahead captures every later answer. So the answer is only where a scan starts, and the
first record that is *plausibly* stamped wins::

    stamp <  t            before the boundary; also shows that earlier candidates were stamped ahead
    t <= stamp <= t+skew  plausible: the boundary
    stamp >  t+skew       candidate: stamped ahead, or the stream paused over the boundary
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from trainfeed.errors import ConfigError, IngestError
from trainfeed.sources._topic import OffsetRange, Topic, check_available

__all__ = ["PartitionBoundary", "find_boundary"]

# So many candidates in a row, with nothing before the boundary among them, are a stream that
# paused: a producer with a wrong clock does not write alone for that long.
_GAP_RECORDS: Final = 1000

_Method = Literal["index", "scan", "end"]


@dataclass(frozen=True)
class PartitionBoundary:
    """Where one topic partition stood at a point in time.

    Attributes:
        offset: Offset of the first record at or after the time; the log end when there is none.
        log_start: First offset that could be read when the boundary was found.
        log_end: Last stable offset when the boundary was found.
        record_timestamp_ms: Stamp of the first record from ``offset`` on; None at the log end.
        leader_epoch: Epoch of the partition's leader; None where there is no such thing.
        method: ``index``: the time index was right; ``scan``: records were looked at; ``end``:
            no record is stamped at or after the time.
    """

    offset: int
    log_start: int
    log_end: int
    record_timestamp_ms: int | None
    leader_epoch: int | None
    method: _Method


class _Found(NamedTuple):
    offset: int
    stamp_ms: int | None
    method: _Method


def find_boundary(  # noqa: PLR0913 - two limits of the answer, two of the search
    topic: Topic,
    partition: int,
    timestamp_ms: int,
    *,
    skew_ms: int,
    floor: int | None,
    ceiling: int | None,
    scan_limit: int = 1_000_000,
) -> PartitionBoundary:
    """Find the first record of a partition at or after a time.

    Args:
        topic: The open topic.
        partition: Number of the partition.
        timestamp_ms: The time, milliseconds since 1970 UTC.
        skew_ms: How far ahead of the time a stamp is still believed.
        floor: Boundary of the nearest earlier time that is known; the scan starts there.
        ceiling: Boundary of the nearest later time that is known.
        scan_limit: Most records to look at.

    Returns:
        The boundary, within ``[floor, ceiling]``.

    Raises:
        IngestError: ``scan_limit`` records did not show where the time lies.
        OffsetOutOfRangeError: The log ends before ``floor``: it was truncated.
        ConfigError: The known boundaries contradict each other.
    """
    name = topic.identity.topic
    low, high = floor or 0, ceiling
    if high is not None and low > high:
        raise ConfigError(
            f"topic {name!r} partition {partition}: known boundaries contradict each other:"
            f" {low} at an earlier time, {high} at a later one; look into the boundary files"
        )
    # The range first: a record that arrives between the two questions then lies behind the end.
    log_start, log_end = topic.log_range(partition)
    check_available(OffsetRange(name, partition, log_end, max(log_end, low)), log_start, log_end)
    scan = _Scan(topic, partition, timestamp_ms, timestamp_ms + skew_ms, scan_limit)
    found = scan.find(low, high, log_end)
    offset = max(low, found.offset if high is None else min(found.offset, high))
    moved = offset != found.offset
    return PartitionBoundary(
        offset=offset,
        log_start=log_start,
        log_end=log_end,
        record_timestamp_ms=(
            _stamp_from(topic, partition, offset, log_start, log_end) if moved else found.stamp_ms
        ),
        leader_epoch=topic.leader_epoch(partition),
        method=found.method,
    )


@dataclass(frozen=True)
class _Scan:
    topic: Topic
    partition: int
    earliest_ms: int
    latest_ms: int
    limit: int

    def find(self, low: int, high: int | None, log_end: int) -> _Found:
        hint = self.topic.offset_at(self.partition, self.earliest_ms)
        if hint is None or max(hint, low) >= log_end:
            return _Found(log_end, None, "end")
        start = max(hint, low)
        stamps = self.topic.iter_stamps(self.partition, start)
        first = next(stamps, None)
        if first is None:
            return _Found(log_end, None, "end")
        offset, stamp = first
        if self.earliest_ms <= stamp <= self.latest_ms:
            return _Found(offset, stamp, "index" if start == hint else "scan")
        found = self._walk(first, stamps, high)
        return _Found(*found, "scan") if found else _Found(log_end, None, "end")

    def _walk(
        self, first: tuple[int, int], stamps: Iterator[tuple[int, int]], high: int | None
    ) -> tuple[int, int] | None:
        record: tuple[int, int] | None = first
        candidate: tuple[int, int] | None = None
        num_ahead = 0
        num_scanned = 0
        while record is not None:
            offset, stamp = record
            if candidate is None and high is not None and offset >= high:
                return None  # whatever follows, the answer is the ceiling
            if stamp < self.earliest_ms:
                candidate, num_ahead = None, 0
            elif stamp <= self.latest_ms:
                return record
            else:
                candidate, num_ahead = candidate or record, num_ahead + 1
                if num_ahead == _GAP_RECORDS:
                    return candidate
            num_scanned += 1
            if num_scanned == self.limit:
                raise self._too_far(first[0], offset)
            record = next(stamps, None)
        return candidate

    def _too_far(self, start: int, offset: int) -> IngestError:
        span = OffsetRange(self.topic.identity.topic, self.partition, start, offset + 1)
        return IngestError(
            f"{span}: {self.limit} records were scanned for the first one stamped from"
            f" {self.earliest_ms} to {self.latest_ms} ms, and none was found; nothing was written;"
            " build an earlier interval first, whose boundary shortens the scan"
        )


def _stamp_from(
    topic: Topic, partition: int, offset: int, log_start: int, log_end: int
) -> int | None:
    """Return the stamp of the first record from ``offset`` on, if it can still be read."""
    if not log_start <= offset < log_end:
        return None
    first = next(topic.iter_stamps(partition, offset), None)
    return first[1] if first else None

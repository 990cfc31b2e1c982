"""A topic of one partition that is held in memory, with an index as a broker has it."""

from __future__ import annotations

import numpy as np

from trainfeed.errors import OffsetOutOfRangeError
from trainfeed.sources import PartitionState, Stamps, TopicIdentity


class MemoryTopic:
    """Partition 0, given as ``{offset: timestamp in ms}``.

    Its index answers as a broker's, or always with ``hint``; ``hint=-1`` is an index that knows
    no position at all. ``num_read`` counts the records that were looked at.
    """

    def __init__(self, stamps, *, log_start=None, log_end=None, high_watermark=None, hint=None):
        self.hint = hint
        self.offsets = np.array(sorted(stamps), np.int64)
        self.stamps = np.array([stamps[offset] for offset in sorted(stamps)], np.int64)
        self.log_start = min(stamps, default=0) if log_start is None else log_start
        self.log_end = max(stamps, default=-1) + 1 if log_end is None else log_end
        self.high_watermark = self.log_end if high_watermark is None else high_watermark
        self.num_read = 0
        self.identity = TopicIdentity("flights", "id", "memory")

    def partitions(self):
        return [0]

    def log_range(self, partition):
        assert partition == 0
        return self.log_start, self.log_end

    def states(self):
        return {0: PartitionState(self.log_start, self.log_end, self.high_watermark, 7)}

    is_compacted = False

    def offsets_at(self, times_ms):
        return {partition: self._offset_at(at) for partition, at in times_ms.items()}

    def _offset_at(self, timestamp_ms):
        if self.hint is not None:
            return self.hint if self.hint >= 0 else None
        rows = np.flatnonzero((self.stamps >= timestamp_ms) & (self.offsets >= self.log_start))
        return int(self.offsets[rows[0]]) if len(rows) else None

    def read_stamps(self, partition, start, end, *, max_records, max_bytes=16 << 20):
        assert partition == 0
        assert end <= self.log_end
        if start < min(self.log_start, end):
            raise OffsetOutOfRangeError(f"{start} < {self.log_start}")
        first, behind = np.searchsorted(self.offsets, (start, end))
        most = min(max_records, max(1, max_bytes // 16))
        rows = slice(first, min(behind, first + most))
        self.num_read += rows.stop - rows.start
        reached = end if rows.stop == behind else int(self.offsets[rows.stop - 1]) + 1
        offsets = self.offsets[rows]
        return Stamps(offsets, self.stamps[rows], 16 * len(offsets), reached)

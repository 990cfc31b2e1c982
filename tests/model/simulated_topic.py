"""A topic as ``trainfeed.sources.Topic`` describes it, over simulated partitions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainfeed.errors import OffsetOutOfRangeError, TopicNotFoundError
from trainfeed.sources import TopicIdentity

__all__ = ["Incarnation", "SimulatedTopic"]

# Stamps that an iterator takes out of an array at once.
_CHUNK = 512
_RECORD_BYTES = 64


try:
    from trainfeed.sources import PartitionState, Stamps
except ImportError:  # an older rule is measured
    PartitionState = Stamps = None


def _out_of_range(partition, start, view):
    return OffsetOutOfRangeError(
        f"topic 'events' partition {partition} offset {start} < log start {view.log_start}"
    )


@dataclass(frozen=True)
class Incarnation:
    """A topic from its creation to its deletion; times are milliseconds since 1970."""

    uuid: str
    partitions: dict[int, object]
    created: int
    deleted: int


class SimulatedTopic:
    """One incarnation at ``now``; every question takes ``step`` milliseconds.

    Attributes:
        num_questions: Questions asked of the broker.
        num_records: Records read.
    """

    def __init__(self, incarnation, now, *, step=0):
        self._incarnation = incarnation
        self._step = step
        self.now = now
        self.num_questions = self.num_records = 0
        self.identity = TopicIdentity("events", incarnation.uuid, "simulated")

    def partitions(self):
        logs = self._incarnation.partitions
        return sorted(number for number, log in logs.items() if log.created <= self.now)

    def log_range(self, partition):
        view = self._ask(partition)
        return view.log_start, view.last_stable

    def states(self):
        self._pass()
        return {partition: self._state(partition) for partition in self.partitions()}

    is_compacted = False

    def offsets_at(self, times_ms):
        self._pass()
        logs = self._incarnation.partitions
        return {
            partition: logs[partition].offset_at(self.now, time)
            for partition, time in times_ms.items()
        }

    def read_stamps(self, partition, start, end, *, max_records, max_bytes=1 << 24):
        view = self._ask(partition)
        if start < min(view.log_start, end):
            raise _out_of_range(partition, start, view)
        first, last = np.searchsorted(view.offsets, (start, end)).tolist()
        kept = min(last, first + min(max_records, max(max_bytes // _RECORD_BYTES, 1)))
        offsets, stamps = view.offsets[first:kept], view.stamps[first:kept]
        self.num_records += len(offsets)
        reached = end if kept == last else int(offsets[-1]) + 1
        return Stamps(offsets, stamps, _RECORD_BYTES * len(offsets), reached)

    def offset_at(self, partition, timestamp_ms):
        self._ask(partition)
        return self._incarnation.partitions[partition].offset_at(self.now, timestamp_ms)

    def leader_epoch(self, partition):
        self._ask(partition)
        return 0

    def iter_stamps(self, partition, start):
        view = self._ask(partition)
        if start < view.log_start:
            raise _out_of_range(partition, start, view)
        first = int(np.searchsorted(view.offsets, start))
        for at in range(first, len(view.offsets), _CHUNK):
            offsets = view.offsets[at : at + _CHUNK].tolist()
            for pair in zip(offsets, view.stamps[at : at + _CHUNK].tolist(), strict=True):
                self.num_records += 1
                yield pair

    def records(self, partition, start, end):
        """Return offsets and stamps of the records of a range, uncounted."""
        view = self._incarnation.partitions[partition].at(self.now)
        first, last = np.searchsorted(view.offsets, (start, end))
        return view.offsets[first:last], view.stamps[first:last]

    def close(self):
        """Nothing is open."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _state(self, partition):
        view = self._incarnation.partitions[partition].at(self.now)
        return PartitionState(view.log_start, view.last_stable, view.high_watermark, 0)

    def _pass(self):
        self.now += self._step
        self.num_questions += 1

    def _ask(self, partition):
        self._pass()
        if partition not in self.partitions():
            raise TopicNotFoundError(f"topic 'events' has no partition {partition}")
        return self._incarnation.partitions[partition].at(self.now)

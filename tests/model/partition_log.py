"""The whole life of one partition, and the answers of a broker at any moment of it.

The offset of an entry is its index. This module imports nothing of trainfeed; the answers are those
of Kafka's ``UnifiedLog`` and ``LogSegment``, with the cases in which its time index answers "none"
although later records are there.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

__all__ = ["NEVER", "Entries", "PartitionLog", "View"]

NEVER = np.iinfo(np.int64).max


@dataclass
class Entries:
    """Appended entries, in the order of offsets; times are milliseconds since 1970.

    Attributes:
        stamps: Stamps of the producer; -1 for none.
        arrived: When the broker appended it; ascending.
        nominal: When it would have been stamped by a good clock; -1 of control markers.
        is_main: Whether it is of the regular stream: neither late, nor ahead, nor unstamped.
        is_marker: Whether it is a transaction's end, which no reader sees.
        committed: False of the records of an aborted transaction, and of its marker.
        txn: Number of its transaction within the partition, -1 without one.
        txn_end: When its transaction ended; 0 without one.
        compacted: When the cleaner took it away, or ``NEVER``.
    """

    stamps: np.ndarray
    arrived: np.ndarray
    nominal: np.ndarray
    is_main: np.ndarray
    is_marker: np.ndarray
    committed: np.ndarray
    txn: np.ndarray
    txn_end: np.ndarray
    compacted: np.ndarray

    def __len__(self):
        return len(self.stamps)

    @property
    def is_record(self):
        """Whether readers of committed records ever see it."""
        return self.committed & ~self.is_marker


@dataclass(frozen=True)
class View:
    """The partition at one moment: ``offsets`` and ``stamps`` of what a reader sees."""

    log_start: int
    last_stable: int
    high_watermark: int
    offsets: np.ndarray
    stamps: np.ndarray


@dataclass
class PartitionLog:
    """A partition that was created at ``created``.

    Attributes:
        segments: First offset of every segment; the first one is 0.
        deletions: ``(when, first offset that is left)``, ascending in both.
    """

    entries: Entries
    segments: np.ndarray
    deletions: list[tuple[int, int]]
    created: int

    def __post_init__(self):
        self._view_at = -1
        self._view = None

    def at(self, now):
        """Return the view at ``now``."""
        if now != self._view_at:
            self._view, self._view_at = self._look(now), now
        return self._view

    def log_start(self, now):
        """Return the first offset that was not deleted by ``now``."""
        return max((first for when, first in self.deletions if when <= now), default=0)

    def deleted_at(self, offset):
        """Return when ``offset`` was deleted, or ``NEVER``."""
        return min((when for when, first in self.deletions if offset < first), default=NEVER)

    def offset_at(self, now, timestamp):
        """Return the time index's answer to a reader of committed records, or None.

        The first segment whose largest stamp is not before the time is searched, and no other.
        A segment without a stamp counts with the time of its last append, as its file does.
        """
        view = self.at(now)
        bases = self.segments[self.segments < view.high_watermark].tolist()
        for base, end in pairwise([*bases, view.high_watermark]):
            if end <= view.log_start:
                continue  # a segment that is deleted as a whole
            held = self.entries.compacted[base:end] > now
            stamps = np.where(held, self.entries.stamps[base:end], -1)
            largest = int(stamps.max())
            if largest < 0:
                largest = int(self.entries.arrived[end - 1])
            if largest >= timestamp:
                return self._search(stamps, base, view, timestamp)
        return None

    @staticmethod
    def _search(stamps, base, view, timestamp):
        first = max(base, view.log_start)
        hits = np.flatnonzero(stamps[first - base :] >= max(timestamp, 0))
        if not len(hits) or first + hits[0] >= view.last_stable:
            return None
        return int(first + hits[0])

    def _look(self, now):
        entries = self.entries
        high = int(np.searchsorted(entries.arrived, now, "right"))
        is_open = np.flatnonzero(entries.txn_end[:high] > now)
        stable = int(is_open[0]) if len(is_open) else high
        start = min(self.log_start(now), high)
        # Records cannot be deleted beyond the high watermark, but beyond the last stable offset.
        stable = max(stable, start)
        seen = entries.is_record[start:stable] & (entries.compacted[start:stable] > now)
        offsets = np.flatnonzero(seen) + start
        return View(start, stable, high, offsets, entries.stamps[offsets])

"""Counts the outcome of every record while a group of pieces is preprocessed."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from trainfeed.dataset import Leaf, Ledger, SourceLedger, ValidLeaf
from trainfeed.dataset.order import source_hash
from trainfeed.errors import MemoryLimitError
from trainfeed.pipeline.quarantine import MOST_RAW_BYTES
from trainfeed.pipeline.sorting import QUARANTINE_SCHEMA
from trainfeed.preprocessing import Reject

__all__ = ["Tally", "TurnedDownRecords", "require_bounded"]

# Bytes of a row in Arrow's columns beside its texts: source (4), offset (8), three ends of texts.
_FIXED_BYTES: Final = 24
# Limits for the offsets and rows that wait as Python objects, of some hundred bytes each.
_PENDING_OFFSETS: Final = 16_384
_PENDING_ROWS: Final = 1024
_PENDING_BYTES: Final = 1 << 20


class TurnedDownRecords(Protocol):
    """Gets the records that a function turns down."""

    def filter(self, source: str, reason: str, offsets: list[int], num_bytes: int) -> None:
        """Take filtered records at ``offsets``, of ``num_bytes`` together."""

    def reject(self, source: str, offset: int, value: bytes | None, reject: Reject) -> None:
        """Take a broken record."""


class _TurnedDownCount:
    """Count, bytes and position hashes of records of one source that were turned down.

    Offsets wait in an array of machine words until there are enough for one call of numpy.

    Args:
        source: Hash of the source.
    """

    def __init__(self, source: int) -> None:
        self._source = source
        self._leaf = Leaf()
        self._offsets = array("q")
        self._num_bytes = 0

    def extend(self, offsets: list[int], num_bytes: int) -> None:
        """Count records at ``offsets`` that have ``num_bytes`` together."""
        self._offsets.extend(offsets)
        self._num_bytes += num_bytes
        if len(self._offsets) >= _PENDING_OFFSETS:
            self._fold()

    def leaf(self) -> Leaf:
        """Return the account."""
        self._fold()
        return self._leaf

    def _fold(self) -> None:
        offsets = np.array(self._offsets, dtype=np.int64)
        self._leaf += Leaf.of(self._source, offsets, self._num_bytes)
        self._offsets, self._num_bytes = array("q"), 0


class Tally:
    """The records of a task that yield no sample.

    Args:
        sources: Source strings of the plan, in its order.
        limit_bytes: The most bytes that the quarantine of the task may keep.
        run_bytes: About how many bytes of the quarantine are held in memory.

    Attributes:
        kept_bytes: Bytes in quarantine: raw bytes, reason, message and position of every record.
    """

    def __init__(self, sources: list[str], limit_bytes: int, run_bytes: int) -> None:
        self._index = {source: index for index, source in enumerate(sources)}
        self._limit_bytes = limit_bytes
        self._filtered: dict[str, dict[str, _TurnedDownCount]] = {}
        self._quarantined: dict[str, _TurnedDownCount] = {}
        self._quarantine = _Quarantine(run_bytes)
        self.kept_bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether the quarantined records in memory should be written now."""
        return self._quarantine.is_full

    def filter(self, source: str, reason: str, offsets: list[int], num_bytes: int) -> None:
        """Count filtered records at ``offsets``, of ``num_bytes`` together."""
        turned = self._filtered.setdefault(source, {})
        if reason not in turned:
            turned[reason] = _TurnedDownCount(source_hash(source))
        turned[reason].extend(offsets, num_bytes)

    def reject(self, source: str, offset: int, value: bytes | None, reject: Reject) -> None:
        """Add a broken record to the quarantine.

        Raises:
            MemoryLimitError: The quarantine exceeds its limit.
        """
        if source not in self._quarantined:
            self._quarantined[source] = _TurnedDownCount(source_hash(source))
        self._quarantined[source].extend([offset], len(value or b""))
        raw = (value or b"")[:MOST_RAW_BYTES]
        self.kept_bytes += self._quarantine.add(
            self._index[source], offset, reject.reason, reject.message, raw
        )
        require_bounded(self.kept_bytes, self._limit_bytes, f" at {source} offset {offset}")

    def take_quarantine(self) -> pa.Table:
        """Return and drop the quarantined records in memory, in the order of their arrival."""
        return self._quarantine.take()

    def ledger(self, read: Mapping[str, Leaf], valid: Mapping[str, ValidLeaf]) -> Ledger:
        """Return the ledger of all records.

        Args:
            read: Source → account of the records read.
            valid: Source → account of the records with samples.
        """
        result = Ledger()
        for source, leaf in read.items():
            filtered = self._filtered.get(source, {})
            quarantined = self._quarantined.get(source)
            result[source] = SourceLedger(
                read=leaf,
                valid=valid[source],
                quarantined=quarantined.leaf() if quarantined else Leaf(),
                filtered={reason: filtered[reason].leaf() for reason in sorted(filtered)},
            )
        return result


class _Quarantine:
    """Quarantined records in memory, as Arrow columns, which take far less than Python objects.

    Args:
        run_bytes: About how many bytes it may hold before it is full.
    """

    def __init__(self, run_bytes: int) -> None:
        self._run_bytes = run_bytes
        self._rows: list[tuple[int, int, str, str, bytes]] = []
        self._row_bytes = 0
        self._batches: list[pa.RecordBatch] = []
        self._batch_bytes = 0

    @property
    def is_full(self) -> bool:
        return self._row_bytes + self._batch_bytes >= self._run_bytes

    def add(self, source: int, offset: int, reason: str, message: str, raw: bytes) -> int:
        """Add a record; return its bytes in the quarantine."""
        num_bytes = _FIXED_BYTES + len(reason) + len(message.encode()) + len(raw)
        self._rows.append((source, offset, reason, message, raw))
        self._row_bytes += num_bytes
        if len(self._rows) >= _PENDING_ROWS or self._row_bytes >= _PENDING_BYTES:
            self._pack()
        return num_bytes

    def take(self) -> pa.Table:
        """Return all rows, and drop them."""
        self._pack()
        batches, self._batches, self._batch_bytes = self._batches, [], 0
        return pa.Table.from_batches(batches, schema=QUARANTINE_SCHEMA)

    def _pack(self) -> None:
        if not self._rows:
            return
        columns = zip(*self._rows, strict=True)
        arrays = [
            pa.array(column, field.type)
            for column, field in zip(columns, QUARANTINE_SCHEMA, strict=True)
        ]
        self._batches.append(pa.RecordBatch.from_arrays(arrays, schema=QUARANTINE_SCHEMA))
        self._batch_bytes += self._row_bytes
        self._rows, self._row_bytes = [], 0


def require_bounded(kept_bytes: int, limit_bytes: int, place: str = "") -> None:
    """Refuse more bytes in quarantine than one task may keep.

    Raises:
        MemoryLimitError: ``kept_bytes`` is above the limit.
    """
    if kept_bytes > limit_bytes:
        raise MemoryLimitError(
            f"quarantined records of one task exceed resources.memory_bytes = {limit_bytes} bytes"
            f"{place}; nothing was published; look at why so many are broken, raise it, or lower"
            " resources.records_per_task in dataset.yaml"
        )

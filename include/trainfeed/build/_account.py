"""Counts what becomes of records while a split group is preprocessed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trainfeed.build._record import Reject
from trainfeed.build._spill import QUARANTINE_SCHEMA
from trainfeed.dataset import Leaf, Ledger, SourceLedger, ValidLeaf
from trainfeed.dataset.identity import source_hash
from trainfeed.errors import MemoryLimitError

__all__ = ["Lateness", "Tally", "require_bounded"]

# Raw bytes kept of a quarantined record; whatever is longer is cut, the position finds the rest.
_MAX_RAW_BYTES: Final = 64 << 10


@dataclass
class _Turned:
    """Records of one source that were turned down: their offsets and bytes."""

    offsets: list[int] = field(default_factory=list)
    bytes: int = 0

    def extend(self, offsets: list[int], num_bytes: int) -> None:
        """Count records at ``offsets`` that have ``num_bytes`` together."""
        self.offsets += offsets
        self.bytes += num_bytes

    def leaf(self, source: int) -> Leaf:
        """Return the account, for the source with that hash."""
        return Leaf.of(source, np.array(self.offsets, dtype=np.int64), self.bytes)


class Tally:
    """The records of a task that yield no sample.

    Args:
        sources: Source strings of the plan, in its order.
        limit_bytes: Most raw bytes in quarantine.

    Attributes:
        raw_bytes: Raw bytes in quarantine.
    """

    def __init__(self, sources: list[str], limit_bytes: int) -> None:
        self._index = {source: index for index, source in enumerate(sources)}
        self._limit_bytes = limit_bytes
        self._filtered: dict[str, dict[str, _Turned]] = {}
        self._quarantined: dict[str, _Turned] = {}
        self._rows: list[dict[str, Any]] = []
        self.raw_bytes = 0

    def filter(self, source: str, reason: str, offsets: list[int], num_bytes: int) -> None:
        """Count records that are not wanted, at ``offsets``, of ``num_bytes`` together."""
        turned = self._filtered.setdefault(source, {}).setdefault(reason, _Turned())
        turned.extend(offsets, num_bytes)

    def reject(self, source: str, offset: int, value: bytes | None, reject: Reject) -> None:
        """Take a broken record into quarantine.

        Raises:
            MemoryLimitError: There is too much in it.
        """
        self._quarantined.setdefault(source, _Turned()).extend([offset], len(value or b""))
        raw = (value or b"")[:_MAX_RAW_BYTES]
        self.raw_bytes += len(raw)
        require_bounded(self.raw_bytes, self._limit_bytes, f" at {source} offset {offset}")
        row = {
            "source": self._index[source],
            "offset": offset,
            "reason": reject.reason,
            "message": reject.message,
            "raw": raw,
        }
        self._rows.append(row)

    def quarantine(self) -> pa.Table:
        """Return the broken records, in the order in which they came."""
        return pa.Table.from_pylist(self._rows, schema=QUARANTINE_SCHEMA)

    def ledger(self, read: Mapping[str, Leaf], valid: Mapping[str, ValidLeaf]) -> Ledger:
        """Return what became of all records.

        Args:
            read: Account of what was read, by source.
            valid: Account of what has samples, by source.
        """
        result = Ledger()
        for source, leaf in read.items():
            number = source_hash(source)
            filtered = self._filtered.get(source, {})
            result[source] = SourceLedger(
                read=leaf,
                valid=valid[source],
                quarantined=self._quarantined.get(source, _Turned()).leaf(number),
                filtered={reason: filtered[reason].leaf(number) for reason in sorted(filtered)},
            )
        return result


def require_bounded(raw_bytes: int, limit_bytes: int, place: str = "") -> None:
    """Refuse more raw bytes in quarantine than one task may keep.

    Raises:
        MemoryLimitError: There are more.
    """
    if raw_bytes > limit_bytes:
        raise MemoryLimitError(
            f"quarantined records of one task exceed resources.memory_bytes = {limit_bytes} bytes"
            f"{place}; nothing was published; look at why so many are broken, raise it, or lower"
            " resources.records_per_task in dataset.yaml"
        )


@dataclass
class Lateness:
    """Records of one source stamped outside of the window that their offset puts them into.

    Attributes:
        late: Stamped before its start.
        future: Stamped at its end or later.
        max_lateness_ms: How long before its start, at most.
        unstamped: Without a stamp: neither late nor future.
        ahead: Those of ``future`` that are stamped so long after its end that they are refused;
            counted where the policy is to fail.
    """

    late: int = 0
    future: int = 0
    max_lateness_ms: int = 0
    unstamped: int = 0
    ahead: int = 0

    def count(
        self, stamps: NDArray[Any], start_ms: int, end_ms: int, ahead_ms: int | None = None
    ) -> None:
        """Count the stamps of a batch, int64 milliseconds of shape (n,).

        Args:
            stamps: Negative where a record has none.
            start_ms: Start of the window.
            end_ms: Its end.
            ahead_ms: From when on stamps are refused; None when none is.
        """
        stamped = stamps >= 0
        late = stamped & (stamps < start_ms)
        self.unstamped += len(stamps) - int(stamped.sum())
        self.late += int(late.sum())
        self.future += int((stamps >= end_ms).sum())
        if ahead_ms is not None:
            self.ahead += int((stamps >= ahead_ms).sum())
        if late.any():
            self.max_lateness_ms = max(self.max_lateness_ms, int(start_ms - stamps[late].min()))

    def __add__(self, other: Lateness) -> Lateness:
        return Lateness(
            self.late + other.late,
            self.future + other.future,
            max(self.max_lateness_ms, other.max_lateness_ms),
            self.unstamped + other.unstamped,
            self.ahead + other.ahead,
        )

    def to_json(self) -> dict[str, int]:
        """Return the counts for the trailer of the spill file; the optional ones where not 0."""
        counts = {"late": self.late, "future": self.future, "max_lateness_ms": self.max_lateness_ms}
        optional = {"unstamped": self.unstamped, "ahead": self.ahead}
        return counts | {name: count for name, count in optional.items() if count}

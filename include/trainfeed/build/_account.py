"""Counts what becomes of records while a split group is preprocessed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainfeed.build._record import Record
from trainfeed.dataset import Leaf

__all__ = ["Lateness", "Turned"]


@dataclass
class Turned:
    """Records of one source that were turned down: their offsets and bytes."""

    offsets: list[int] = field(default_factory=list)
    bytes: int = 0

    def add(self, record: Record) -> None:
        """Count a record."""
        self.offsets.append(record.offset)
        self.bytes += len(record.value or b"")

    def leaf(self, source: int) -> Leaf:
        """Return the account, for the source with that hash."""
        return Leaf.of(source, np.array(self.offsets, dtype=np.int64), self.bytes)


@dataclass
class Lateness:
    """Records of one source stamped outside of the window that their offset puts them into."""

    late: int = 0
    future: int = 0
    max_lateness_ms: int = 0

    def count(self, stamps: NDArray[Any], start_ms: int, end_ms: int) -> None:
        """Count the stamps of a batch, int64 milliseconds of shape (n,)."""
        late = stamps < start_ms
        self.late += int(late.sum())
        self.future += int((stamps >= end_ms).sum())
        if late.any():
            self.max_lateness_ms = max(self.max_lateness_ms, int(start_ms - stamps[late].min()))

    def to_json(self) -> dict[str, int]:
        """Return the counts for the trailer of the spill file."""
        return {"late": self.late, "future": self.future, "max_lateness_ms": self.max_lateness_ms}

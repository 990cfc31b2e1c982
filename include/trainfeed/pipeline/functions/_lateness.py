"""Counts records whose stamps lie outside of the window that their offset puts them into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Lateness"]


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
        self, stamps: NDArray[np.int64], start_ms: int, end_ms: int, ahead_ms: int | None = None
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

    @classmethod
    def from_json(cls, value: Mapping[str, int]) -> Lateness:
        """Read what ``to_json`` wrote.

        Raises:
            TypeError: A value is no whole number, or has a name that is not known here.
        """
        if not all(type(count) is int for count in value.values()):
            raise TypeError(f"expected counts of late records, got {value!r}")
        return cls(**value)

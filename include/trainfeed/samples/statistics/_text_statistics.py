"""Statistics of bytes and text: lengths, and frequent values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainfeed.samples.statistics._top_values import TopValues, loaded_top, merged_top

__all__ = ["Texts"]


class Texts:
    """Lengths and frequent values of bytes, or of text in UTF-8.

    Args:
        sketches: Whether to find frequent values.
    """

    def __init__(self, *, sketches: bool) -> None:
        self._top = TopValues() if sketches else None
        self._num = 0
        self._total = 0
        self._low: int | None = None
        self._high: int | None = None

    def add(self, text: bytes) -> None:
        """Add one value."""
        num_bytes = len(text)
        self._extend(1, num_bytes, num_bytes, num_bytes)
        if self._top is not None:
            self._top.add_text(text)

    def merge(self, other: Texts) -> None:
        """Add the values of ``other``."""
        if other._low is not None and other._high is not None:
            self._extend(other._num, other._total, other._low, other._high)
        self._top = merged_top(self._top, other._top)

    def to_json(self) -> dict[str, Any]:
        """Return range, mean and total of lengths, and frequent values."""
        entries: dict[str, Any] = {
            "min_length": self._low,
            "max_length": self._high,
            "mean_length": self._total / self._num if self._num else None,
            "total_length": self._total,
        }
        if self._top is not None:
            entries |= self._top.to_json()
        return entries

    def load(self, value: Mapping[str, Any]) -> None:
        """Load the values that ``to_json`` gave, and ``count`` and ``nulls`` of the field."""
        num = int(value["count"]) - int(value["nulls"])
        if num:
            low, high = int(value["min_length"]), int(value["max_length"])
            self._extend(num, int(value["total_length"]), low, high)
        self._top = loaded_top(self._top, value)

    def _extend(self, num: int, total: int, low: int, high: int) -> None:
        self._num += num
        self._total += total
        self._low = low if self._low is None else min(self._low, low)
        self._high = high if self._high is None else max(self._high, high)

"""Running statistics of numbers and of lengths.

Numbers are taken in blocks of one size, whatever the calls that bring them: rounding then depends
on the numbers and their order alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Lengths", "Numbers"]

# Large enough that numpy's cost per call vanishes, small enough for the processor's cache.
_BLOCK_VALUES: Final = 1 << 14


@dataclass(frozen=True)
class _Moments:
    """Some finite numbers: how many, mean, sum of squared distances from it, and range."""

    values: int = 0
    mean: float = 0.0
    squares: float = 0.0
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, numbers: NDArray[Any]) -> _Moments:
        if not numbers.size:
            return cls()
        with np.errstate(over="ignore", invalid="ignore"):
            floats = numbers.astype(np.float64)
            mean = float(floats.mean())
            squares = float(np.square(floats - mean).sum())
        # Adding zero makes -0.0 0.0; which of the two is the least would depend on the processor.
        return cls(numbers.size, mean, squares, numbers.min().item() + 0, numbers.max().item() + 0)

    def merged(self, other: _Moments) -> _Moments:
        if self.low is None or self.high is None:
            return other
        if other.low is None or other.high is None:
            return self
        values = self.values + other.values
        distance = other.mean - self.mean
        share = other.values / values
        return _Moments(
            values,
            self.mean + distance * share,
            self.squares + other.squares + distance * distance * self.values * share,
            min(self.low, other.low),
            max(self.high, other.high),
        )


class Numbers:
    """Statistics of numbers of one dtype; those that are not finite are only counted."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._dtype = np.dtype(np.uint8) if dtype.kind == "b" else dtype
        self._block = np.empty(_BLOCK_VALUES, self._dtype)
        self._num_pending = 0
        self._moments = _Moments()
        self._not_finite = 0

    def add(self, numbers: NDArray[Any]) -> None:
        """Take numbers of the dtype, shape ``(n,)``; they are copied."""
        numbers = numbers.view(self._dtype)
        while (end := self._num_pending + len(numbers)) >= _BLOCK_VALUES:
            rest = _BLOCK_VALUES - self._num_pending
            self._block[self._num_pending :] = numbers[:rest]
            self._moments, self._not_finite = self._with(self._block)
            self._num_pending, numbers = 0, numbers[rest:]
        self._block[self._num_pending : end] = numbers
        self._num_pending = end

    def merge(self, other: Numbers) -> None:
        """Take what ``other`` has taken."""
        moments, not_finite = self._total()
        more, more_not_finite = other._total()
        self._moments, self._not_finite = moments.merged(more), not_finite + more_not_finite
        self._num_pending = 0

    def to_json(self) -> dict[str, Any]:
        """Return number, range, mean and standard deviation."""
        moments, not_finite = self._total()
        mean = std = None
        if moments.values and math.isfinite(moments.squares):
            mean, std = moments.mean, math.sqrt(moments.squares / moments.values)
        return {
            "values": moments.values,
            "not_finite": not_finite,
            "min": moments.low,
            "max": moments.high,
            "mean": mean,
            "std": std,
        }

    def load(self, value: Mapping[str, Any]) -> None:
        """Take what ``to_json`` gave."""
        values = int(value["values"])
        known = value["mean"] is not None
        mean, std = (float(value["mean"]), float(value["std"])) if known else (math.inf, math.inf)
        self._not_finite = int(value["not_finite"])
        if values:
            self._moments = _Moments(values, mean, std * std * values, value["min"], value["max"])

    def _total(self) -> tuple[_Moments, int]:
        return self._with(self._block[: self._num_pending])

    def _with(self, block: NDArray[Any]) -> tuple[_Moments, int]:
        finite = block
        if self._dtype.kind == "f":
            finite = block[np.isfinite(block)]
        not_finite = self._not_finite + len(block) - len(finite)
        return self._moments.merged(_Moments.of(finite)), not_finite


class Lengths:
    """Statistics of lengths in bytes."""

    def __init__(self) -> None:
        self._num = 0
        self._total = 0
        self._low: int | None = None
        self._high: int | None = None

    def add(self, num_bytes: int) -> None:
        """Take one length."""
        self._extend(1, num_bytes, num_bytes, num_bytes)

    def merge(self, other: Lengths) -> None:
        """Take what ``other`` has taken."""
        if other._low is not None and other._high is not None:
            self._extend(other._num, other._total, other._low, other._high)

    def to_json(self) -> dict[str, Any]:
        """Return range, mean and total."""
        return {
            "min_length": self._low,
            "max_length": self._high,
            "mean_length": self._total / self._num if self._num else None,
            "total_length": self._total,
        }

    def load(self, value: Mapping[str, Any]) -> None:
        """Take what ``to_json`` gave, with ``count`` and ``nulls`` of the field beside it."""
        num = int(value["count"]) - int(value["nulls"])
        if num:
            low, high = int(value["min_length"]), int(value["max_length"])
            self._extend(num, int(value["total_length"]), low, high)

    def _extend(self, num: int, total: int, low: int, high: int) -> None:
        self._num += num
        self._total += total
        self._low = low if self._low is None else min(self._low, low)
        self._high = high if self._high is None else max(self._high, high)

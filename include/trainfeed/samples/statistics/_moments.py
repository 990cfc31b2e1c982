"""Number, mean, spread and range of numbers, together with their sketches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainfeed.samples.statistics._histogram import Histogram
from trainfeed.samples.statistics._top_values import TopValues, merged_top

__all__ = ["Moments", "Taken"]


@dataclass(frozen=True)
class Moments:
    """Number of values, mean, sum of squared distances from the mean, and range."""

    values: int = 0
    mean: float = 0.0
    squares: float = 0.0
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, numbers: NDArray[Any], floats: NDArray[np.float64]) -> Moments:
        """Return the moments of finite numbers, shape ``(n,)``, in their dtype and as float64."""
        if not numbers.size:
            return cls()
        with np.errstate(over="ignore", invalid="ignore"):
            # Distances from the mean are squared, and not the numbers: the difference of two large
            # sums would lose precision.
            mean = float(floats.mean())
            distances = floats - mean
            squares = float(np.square(distances, out=distances).sum())
        # Adding zero turns -0.0 into 0.0; which of the two min() returns depends on the processor.
        return cls(numbers.size, mean, squares, numbers.min().item() + 0, numbers.max().item() + 0)

    @classmethod
    def of_rows(cls, rows: NDArray[Any], floats: NDArray[np.float64]) -> list[Moments]:
        """Return ``of`` for each row of finite numbers, shape ``(k, n)`` with ``n`` from 1 on."""
        with np.errstate(over="ignore", invalid="ignore"):
            means = floats.mean(axis=1)
            distances = floats - means[:, np.newaxis]
            squares = np.square(distances, out=distances).sum(axis=1)
        columns = (means, squares, rows.min(axis=1), rows.max(axis=1))
        return [
            cls(rows.shape[1], mean, square, low + 0, high + 0)
            for mean, square, low, high in zip(*(c.tolist() for c in columns), strict=True)
        ]

    @classmethod
    def of_counts(cls, values: NDArray[np.int64], counts: NDArray[np.int64]) -> Moments:
        """Return the moments of ascending values with their counts."""
        if not (num := int(counts.sum())):
            return cls()
        # Whole numbers: the sum is exact.
        mean = int(values @ counts) / num
        squares = float((np.square(values - mean) * counts).sum())
        found = values[counts > 0]
        return cls(num, mean, squares, int(found[0]), int(found[-1]))

    def merged(self, other: Moments) -> Moments:
        """Return the moments of both sets of numbers together."""
        if self.low is None or self.high is None:
            return other
        if other.low is None or other.high is None:
            return self
        values = self.values + other.values
        # Chan's formula for two parts: the shift of the means adds n1 * n2 / n * distance².
        distance = other.mean - self.mean
        share = other.values / values
        return Moments(
            values,
            self.mean + distance * share,
            self.squares + other.squares + distance * distance * self.values * share,
            min(self.low, other.low),
            max(self.high, other.high),
        )

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Moments:
        """Return the moments that ``to_json`` gave as JSON values."""
        if not (values := int(value["values"])):
            return cls()
        known = value["mean"] is not None
        mean, std = (float(value["mean"]), float(value["std"])) if known else (math.inf, math.inf)
        return cls(values, mean, std * std * values, value["min"], value["max"])

    def to_json(self) -> dict[str, Any]:
        """Return number, range, mean and standard deviation; the last two are None on overflow."""
        mean = std = None
        if self.values and math.isfinite(self.squares):
            mean, std = self.mean, math.sqrt(self.squares / self.values)
        return {
            "values": self.values,
            "min": self.low,
            "max": self.high,
            "mean": mean,
            "std": std,
        }


@dataclass
class Taken:
    """Moments and sketches of numbers, which can be merged.

    Attributes:
        moments: Moments of the finite numbers.
        not_finite: Number of values that are NaN or infinite.
        histogram: Histogram of the finite numbers; None if not requested or unknown.
        top: Most frequent values of integers; None if not requested or unknown.
    """

    moments: Moments
    not_finite: int
    histogram: Histogram | None
    top: TopValues | None

    def take(self, block: NDArray[Any]) -> None:
        """Add numbers, shape ``(n,)``."""
        finite = block
        if block.dtype.kind == "f" and not (is_finite := np.isfinite(block)).all():
            finite = block[is_finite]
            self.not_finite += len(block) - len(finite)
        floats = finite.astype(np.float64, copy=False)
        self.moments = self.moments.merged(Moments.of(finite, floats))
        if self.histogram is not None:
            self.histogram.add(floats)
        if self.top is not None:
            self.top.add_numbers(finite)

    def copy(self) -> Taken:
        """Return an independent copy."""
        histogram = None if self.histogram is None else self.histogram.copy()
        top = None if self.top is None else self.top.copy()
        return Taken(self.moments, self.not_finite, histogram, top)

    def merge(self, other: Taken) -> None:
        """Add the numbers of ``other``."""
        self.moments = self.moments.merged(other.moments)
        self.not_finite += other.not_finite
        if self.histogram is not None and other.histogram is not None:
            self.histogram.merge(other.histogram)
        else:
            self.histogram = None
        self.top = merged_top(self.top, other.top)

    def to_json(self) -> dict[str, Any]:
        """Return the moments, the number of values that are not finite, and the sketches."""
        entries: dict[str, Any] = {"values": self.moments.values, "not_finite": self.not_finite}
        entries |= self.moments.to_json()
        if (histogram := self.histogram) is not None:
            entries["histogram"] = histogram.to_json()
            entries["quantiles"] = None
            if self.moments.values:
                entries["quantiles"] = histogram.quantiles(self.moments.low, self.moments.high)
            # With a bin per value the histogram is the exact table of values.
            if histogram.is_exact:
                entries |= {"top": histogram.top(), "top_error": 0, "top_skipped": 0}
        if self.top is not None:
            entries |= self.top.to_json()
        return entries

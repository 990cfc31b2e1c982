"""Running statistics of numbers, and of bytes and text.

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

from trainfeed.samples._sketches import Histogram, TopValues, byte_counts, byte_values

__all__ = ["ByteNumbers", "Numbers", "Texts"]

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

    @classmethod
    def of_counts(cls, values: NDArray[np.int64], counts: NDArray[np.int64]) -> _Moments:
        if not (num := int(counts.sum())):
            return cls()
        mean = int(values @ counts) / num
        squares = float((np.square(values - mean) * counts).sum())
        found = values[counts > 0]
        return cls(num, mean, squares, int(found[0]), int(found[-1]))

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


@dataclass
class _Taken:
    """What is known of numbers: all of it can be merged.

    Attributes:
        moments: Of those that are finite.
        not_finite: How many others there are.
        histogram: Of the finite ones, None when it was not asked for or is not known.
        top: The most frequent of integers, None as for ``histogram``.
    """

    moments: _Moments
    not_finite: int
    histogram: Histogram | None
    top: TopValues | None

    def take(self, block: NDArray[Any]) -> None:
        """Take numbers, shape ``(n,)``."""
        finite = block[np.isfinite(block)] if block.dtype.kind == "f" else block
        self.not_finite += len(block) - len(finite)
        self.moments = self.moments.merged(_Moments.of(finite))
        if self.histogram is not None:
            self.histogram.add(finite)
        if self.top is not None:
            self.top.add_numbers(finite)

    def copy(self) -> _Taken:
        """Return the same, to be changed."""
        histogram = None if self.histogram is None else self.histogram.copy()
        top = None if self.top is None else self.top.copy()
        return _Taken(self.moments, self.not_finite, histogram, top)

    def merge(self, other: _Taken) -> None:
        """Take what ``other`` has taken."""
        self.moments = self.moments.merged(other.moments)
        self.not_finite += other.not_finite
        if self.histogram is not None and other.histogram is not None:
            self.histogram.merge(other.histogram)
        else:
            self.histogram = None
        self.top = _merged_top(self.top, other.top)


class Numbers:
    """Statistics of numbers of more than one byte; those that are not finite are only counted.

    Args:
        dtype: Their dtype.
        sketches: Whether to take a histogram.
        top: Whether to look for frequent values, too, where they are integers.
    """

    def __init__(self, dtype: np.dtype[Any], *, sketches: bool, top: bool) -> None:
        self._dtype = dtype
        self._block = np.empty(_BLOCK_VALUES, self._dtype)
        self._num_pending = 0
        wants_top = sketches and top and dtype.kind in "iu"
        self._taken = _Taken(
            _Moments(),
            0,
            Histogram(self._dtype) if sketches else None,
            TopValues() if wants_top else None,
        )

    def add(self, numbers: NDArray[Any]) -> None:
        """Take numbers of the dtype, shape ``(n,)``; they are copied."""
        numbers = numbers.view(self._dtype)
        while (end := self._num_pending + len(numbers)) >= _BLOCK_VALUES:
            rest = _BLOCK_VALUES - self._num_pending
            self._block[self._num_pending :] = numbers[:rest]
            self._taken.take(self._block)
            self._num_pending, numbers = 0, numbers[rest:]
        self._block[self._num_pending : end] = numbers
        self._num_pending = end

    def merge(self, other: Numbers) -> None:
        """Take what ``other`` has taken."""
        total = self._total()
        total.merge(other._total())
        self._taken, self._num_pending = total, 0

    def to_json(self) -> dict[str, Any]:
        """Return number, range, mean and standard deviation, and what the sketches say."""
        return _numbers_json(self._total())

    def load(self, value: Mapping[str, Any]) -> None:
        """Take what ``to_json`` gave."""
        taken = self._taken
        taken.moments, taken.not_finite = _loaded_moments(value), int(value["not_finite"])
        if "histogram" not in value:
            taken.histogram = None
        elif taken.histogram is not None:
            taken.histogram.load(value["histogram"])
        taken.top = _loaded_top(taken.top, value)

    def _total(self) -> _Taken:
        """Return what was taken, with nothing pending."""
        total = self._taken.copy()
        total.take(self._block[: self._num_pending])
        return total


class Texts:
    """Statistics of values of bytes, or of text in UTF-8: lengths, and frequent values.

    Args:
        sketches: Whether to look for frequent values.
    """

    def __init__(self, *, sketches: bool) -> None:
        self._top = TopValues() if sketches else None
        self._num = 0
        self._total = 0
        self._low: int | None = None
        self._high: int | None = None

    def add(self, text: bytes) -> None:
        """Take one value."""
        num_bytes = len(text)
        self._extend(1, num_bytes, num_bytes, num_bytes)
        if self._top is not None:
            self._top.add_text(text)

    def merge(self, other: Texts) -> None:
        """Take what ``other`` has taken."""
        if other._low is not None and other._high is not None:
            self._extend(other._num, other._total, other._low, other._high)
        self._top = _merged_top(self._top, other._top)

    def to_json(self) -> dict[str, Any]:
        """Return range, mean and total, and frequent values."""
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
        """Take what ``to_json`` gave, with ``count`` and ``nulls`` of the field beside it."""
        num = int(value["count"]) - int(value["nulls"])
        if num:
            low, high = int(value["min_length"]), int(value["max_length"])
            self._extend(num, int(value["total_length"]), low, high)
        self._top = _loaded_top(self._top, value)

    def _extend(self, num: int, total: int, low: int, high: int) -> None:
        self._num += num
        self._total += total
        self._low = low if self._low is None else min(self._low, low)
        self._high = high if self._high is None else max(self._high, high)


class ByteNumbers:
    """Statistics of integers of one byte: they are counted, and everything else follows from that.

    It does not depend on their order then, and takes a fraction of the time.

    Args:
        dtype: Their dtype, or bool.
        sketches: Whether to tell the histogram.
    """

    def __init__(self, dtype: np.dtype[Any], *, sketches: bool) -> None:
        self._dtype = np.dtype(np.uint8) if dtype.kind == "b" else dtype
        self._sketches = sketches
        self._counts = np.zeros(len(byte_values(self._dtype)), np.int64)
        # Of what was read from JSON without histogram.
        self._moments = _Moments()

    def add(self, numbers: NDArray[Any]) -> None:
        """Take numbers of the dtype, shape ``(n,)``."""
        self._counts += byte_counts(np.ascontiguousarray(numbers).view(self._dtype))

    def merge(self, other: ByteNumbers) -> None:
        """Take what ``other`` has taken."""
        self._counts += other._counts
        self._moments = self._moments.merged(other._moments)
        self._sketches &= other._sketches

    def to_json(self) -> dict[str, Any]:
        """Return number, range, mean and standard deviation, histogram and frequent values."""
        moments = _Moments.of_counts(byte_values(self._dtype), self._counts).merged(self._moments)
        histogram = None
        if self._sketches:
            histogram = Histogram(self._dtype)
            histogram.add_counts(self._counts)
        return _numbers_json(_Taken(moments, 0, histogram, None))

    def load(self, value: Mapping[str, Any]) -> None:
        """Take what ``to_json`` gave."""
        if "histogram" in value:
            for number, count in value["histogram"]:
                self._counts[int(number) - byte_values(self._dtype)[0]] += int(count)
        else:
            self._sketches = False
            self._moments = _loaded_moments(value)


def _numbers_json(taken: _Taken) -> dict[str, Any]:
    moments = taken.moments
    mean = std = None
    if moments.values and math.isfinite(moments.squares):
        mean, std = moments.mean, math.sqrt(moments.squares / moments.values)
    return {
        "values": moments.values,
        "not_finite": taken.not_finite,
        "min": moments.low,
        "max": moments.high,
        "mean": mean,
        "std": std,
    } | _sketches_json(taken)


def _loaded_moments(value: Mapping[str, Any]) -> _Moments:
    if not (values := int(value["values"])):
        return _Moments()
    known = value["mean"] is not None
    mean, std = (float(value["mean"]), float(value["std"])) if known else (math.inf, math.inf)
    return _Moments(values, mean, std * std * values, value["min"], value["max"])


def _sketches_json(taken: _Taken) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    if (histogram := taken.histogram) is not None:
        entries["histogram"] = histogram.to_json()
        entries["quantiles"] = None
        if taken.moments.values:
            entries["quantiles"] = histogram.quantiles(taken.moments.low, taken.moments.high)
        if histogram.is_exact:
            entries |= {"top": histogram.top(), "top_error": 0, "top_skipped": 0}
    if taken.top is not None:
        entries |= taken.top.to_json()
    return entries


def _merged_top(mine: TopValues | None, other: TopValues | None) -> TopValues | None:
    if mine is None or other is None:
        return None
    mine.merge(other)
    return mine


def _loaded_top(top: TopValues | None, value: Mapping[str, Any]) -> TopValues | None:
    if top is None or "top" not in value:
        return None
    top.load(value)
    return top

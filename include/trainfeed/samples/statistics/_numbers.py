"""Running statistics of numbers.

Numbers are taken in blocks of one size, whatever the calls that bring them: rounding then depends
on the numbers and their order alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.samples.statistics._histogram import Histogram, byte_counts, byte_values
from trainfeed.samples.statistics._moments import Moments, Taken
from trainfeed.samples.statistics._top_values import TopValues, loaded_top

__all__ = ["BLOCK_VALUES", "ByteNumbers", "Numbers"]

# Large enough that numpy's cost per call vanishes, small enough for the processor's cache.
BLOCK_VALUES: Final = 1 << 14


class Numbers:
    """Statistics of numbers of more than one byte; those that are not finite are only counted.

    Args:
        dtype: Their dtype.
        sketches: Whether to take a histogram.
        top: Whether to look for frequent values, too, where they are integers.
        block_values: How many are taken at once; fewer wait until there are so many.
    """

    def __init__(
        self,
        dtype: np.dtype[Any],
        *,
        sketches: bool,
        top: bool,
        block_values: int = BLOCK_VALUES,
    ) -> None:
        self._dtype = dtype
        self._block_values = block_values
        # As large as what waits needs it: there may be many fields, of few samples each.
        self._block = np.empty(0, self._dtype)
        self._num_pending = 0
        wants_top = sketches and top and dtype.kind in "iu"
        self._taken = Taken(
            Moments(),
            0,
            Histogram(self._dtype) if sketches else None,
            TopValues() if wants_top else None,
        )

    def add(self, numbers: NDArray[Any]) -> None:
        """Take numbers of the dtype, shape ``(n,)``; none of their memory is kept."""
        numbers = numbers.view(self._dtype)
        while (end := self._num_pending + len(numbers)) >= self._block_values:
            rest = self._block_values - self._num_pending
            block = numbers[:rest]
            if self._num_pending:
                self._reserve(self._block_values)
                self._block[self._num_pending :] = block
                block = self._block
            self._taken.take(block)
            self._num_pending, numbers = 0, numbers[rest:]
        self._reserve(end)
        self._block[self._num_pending : end] = numbers
        self._num_pending = end

    def merge(self, other: Numbers) -> None:
        """Take what ``other`` has taken."""
        total = self._total()
        total.merge(other._total())
        self._taken, self._num_pending = total, 0

    def to_json(self) -> dict[str, Any]:
        """Return number, range, mean and standard deviation, and what the sketches say."""
        return self._total().to_json()

    def load(self, value: Mapping[str, Any]) -> None:
        """Take what ``to_json`` gave."""
        taken = self._taken
        taken.moments, taken.not_finite = Moments.from_json(value), int(value["not_finite"])
        if "histogram" not in value:
            taken.histogram = None
        elif taken.histogram is not None:
            taken.histogram.load(value["histogram"])
        taken.top = loaded_top(taken.top, value)

    def _reserve(self, num_values: int) -> None:
        """Let the block have room for so many values."""
        if num_values > len(self._block):
            larger = np.empty(min(self._block_values, 2 * num_values), self._dtype)
            larger[: self._num_pending] = self._block[: self._num_pending]
            self._block = larger

    def _total(self) -> Taken:
        """Return what was taken, with nothing pending; what was taken itself where that is so."""
        if not self._num_pending:
            return self._taken
        total = self._taken.copy()
        total.take(self._block[: self._num_pending])
        return total


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
        self._moments = Moments()

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
        moments = Moments.of_counts(byte_values(self._dtype), self._counts).merged(self._moments)
        histogram = None
        if self._sketches:
            histogram = Histogram(self._dtype)
            histogram.add_counts(self._counts)
        return Taken(moments, 0, histogram, None).to_json()

    def load(self, value: Mapping[str, Any]) -> None:
        """Take what ``to_json`` gave."""
        if "histogram" in value:
            for number, count in value["histogram"]:
                self._counts[int(number) - byte_values(self._dtype)[0]] += int(count)
        else:
            self._sketches = False
            self._moments = Moments.from_json(value)

"""Running statistics of numbers.

Numbers are processed in blocks of one size, whatever the sizes of the calls. So rounding depends
only on the numbers and their order.
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

# Large enough to make numpy's cost per call small, small enough for the cache of the processor.
BLOCK_VALUES: Final = 1 << 14


class Numbers:
    """Statistics of numbers of more than one byte; NaN and infinity are only counted.

    Args:
        dtype: Dtype of the numbers.
        sketches: Whether to compute a histogram.
        top: Whether to find frequent values as well; for integers only.
        block_values: Size of a block; numbers wait until a block is full.
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
        # Grows with the waiting numbers: there may be many fields with few samples each.
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
        """Add numbers of the dtype, shape ``(n,)``; the array is not kept."""
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
        """Add the numbers of ``other``."""
        total = self._total()
        total.merge(other._total())
        self._taken, self._num_pending = total, 0

    def to_json(self) -> dict[str, Any]:
        """Return number, range, mean and standard deviation, and the sketches."""
        return self._total().to_json()

    def load(self, value: Mapping[str, Any]) -> None:
        """Load the values that ``to_json`` gave."""
        taken = self._taken
        taken.moments, taken.not_finite = Moments.from_json(value), int(value["not_finite"])
        if "histogram" not in value:
            taken.histogram = None
        elif taken.histogram is not None:
            taken.histogram.load(value["histogram"])
        taken.top = loaded_top(taken.top, value)

    def _reserve(self, num_values: int) -> None:
        """Make the block large enough for ``num_values``."""
        if num_values > len(self._block):
            larger = np.empty(min(self._block_values, 2 * num_values), self._dtype)
            larger[: self._num_pending] = self._block[: self._num_pending]
            self._block = larger

    def _total(self) -> Taken:
        """Return the sum of all blocks and waiting numbers; the stored sum itself if none wait."""
        if not self._num_pending:
            return self._taken
        total = self._taken.copy()
        total.take(self._block[: self._num_pending])
        return total


class ByteNumbers:
    """Statistics of integers of one byte, computed from a count per value.

    So the result does not depend on the order, and takes a fraction of the time.

    Args:
        dtype: Dtype of the numbers; may be bool.
        sketches: Whether to report the histogram.
    """

    def __init__(self, dtype: np.dtype[Any], *, sketches: bool) -> None:
        self._dtype = np.dtype(np.uint8) if dtype.kind == "b" else dtype
        self._sketches = sketches
        self._counts = np.zeros(len(byte_values(self._dtype)), np.int64)
        # Moments of numbers that were loaded from JSON without a histogram.
        self._moments = Moments()

    def add(self, numbers: NDArray[Any]) -> None:
        """Add numbers of the dtype, shape ``(n,)``."""
        self._counts += byte_counts(np.ascontiguousarray(numbers).view(self._dtype))

    def merge(self, other: ByteNumbers) -> None:
        """Add the numbers of ``other``."""
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
        """Load the values that ``to_json`` gave."""
        if "histogram" in value:
            for number, count in value["histogram"]:
                self._counts[int(number) - byte_values(self._dtype)[0]] += int(count)
        else:
            self._sketches = False
            self._moments = Moments.from_json(value)

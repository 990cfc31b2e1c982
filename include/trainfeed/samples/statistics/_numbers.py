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
from trainfeed.samples.statistics._waiting_rows import WaitingRows

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
        self._rows = WaitingRows(dtype, block_values)
        wants_top = sketches and top and dtype.kind in "iu"
        self._taken = Taken(
            Moments(),
            0,
            Histogram(self._dtype) if sketches else None,
            TopValues() if wants_top else None,
        )

    @classmethod
    def of(cls, dtype: np.dtype[Any], taken: Taken) -> Numbers:
        """Return the statistics of numbers that were taken already, without frequent values."""
        numbers = cls(dtype, sketches=True, top=False)
        numbers._taken = taken
        return numbers

    def add(self, numbers: NDArray[Any]) -> None:
        """Add numbers of the dtype, shape ``(n,)``; the array is not kept."""
        for block in self._rows.blocks(numbers.view(self._dtype)):
            self._taken.take(block)

    def merge(self, other: Numbers) -> None:
        """Add the numbers of ``other``."""
        total = self._total()
        total.merge(other._total())
        self._taken = total
        self._rows.clear()

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

    def _total(self) -> Taken:
        """Return the sum of all blocks and waiting numbers; the stored sum itself if none wait."""
        waiting = self._rows.waiting
        if not len(waiting):
            return self._taken
        total = self._taken.copy()
        total.take(waiting)
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

    @classmethod
    def of_counts(cls, dtype: np.dtype[Any], counts: NDArray[np.int64]) -> ByteNumbers:
        """Return the statistics for the counts of ``byte_values``, which are not kept."""
        numbers = cls(dtype, sketches=True)
        numbers._counts += counts
        return numbers

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
                # Index 0 is the smallest value of the dtype, -128 for int8.
                self._counts[int(number) - byte_values(self._dtype)[0]] += int(count)
        else:
            self._sketches = False
            self._moments = Moments.from_json(value)

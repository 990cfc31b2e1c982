"""Statistics of the components of a field whose values have one byte: a count per value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.samples.statistics._histogram import byte_values
from trainfeed.samples.statistics._numbers import ByteNumbers
from trainfeed.samples.statistics._waiting_rows import WaitingRows

__all__ = ["ByteComponents"]

_NUM_BYTES: Final = 256
_BLOCK_VALUES: Final = 1 << 16


class ByteComponents:
    """Statistics of every component of a field of fixed shape, of one byte each.

    Args:
        dtype: Dtype of the values; may be bool.
        num: Number of components.
    """

    def __init__(self, dtype: np.dtype[Any], num: int) -> None:
        self._dtype = np.dtype(np.uint8) if dtype.kind == "b" else dtype
        self._num = num
        # Rows wait, because samples that come one by one would each need a table of counts.
        self._rows = WaitingRows(self._dtype, _BLOCK_VALUES // num, (num,))
        self._counts = np.zeros((num, _NUM_BYTES), np.int64)

    def add(self, numbers: NDArray[Any]) -> None:
        """Add the values of whole samples, of any shape; the array is not kept."""
        rows = np.ascontiguousarray(numbers).view(self._dtype).reshape(-1, self._num)
        for block in self._rows.blocks(rows):
            self._counts += self._counted(block)

    def merge(self, other: ByteComponents) -> None:
        """Add the components of ``other``, which does not change."""
        self._counts = self._total() + other._total()
        self._rows.clear()

    def to_json(self) -> dict[str, Any]:
        """Return the statistics of all values as one, and of the components one by one."""
        parts = [ByteNumbers.of_counts(self._dtype, row) for row in self._total()]
        return self.whole().to_json() | {"components": [_entry(part) for part in parts]}

    def whole(self) -> ByteNumbers:
        """Return the statistics of all values, without those of components."""
        return ByteNumbers.of_counts(self._dtype, self._total().sum(axis=0))

    def load(self, value: Mapping[str, Any]) -> None:
        """Load the values that ``to_json`` gave."""
        lowest = int(byte_values(self._dtype)[0])
        for counts, entry in zip(self._counts, value["components"], strict=True):
            for number, count in entry["histogram"]:
                counts[int(number) - lowest] += int(count)

    def _total(self) -> NDArray[np.int64]:
        """Return the counts of all rows, those that wait included."""
        waiting = self._rows.waiting
        return self._counts + self._counted(waiting) if len(waiting) else self._counts

    def _counted(self, block: NDArray[Any]) -> NDArray[np.int64]:
        keys = block.view(np.uint8) + np.arange(self._num) * _NUM_BYTES
        counts = np.bincount(keys.reshape(-1), minlength=self._num * _NUM_BYTES)
        counts = counts.reshape(self._num, _NUM_BYTES)
        # As unsigned bytes, negative numbers come after the others: rotate them to the front.
        return counts if self._dtype.kind == "u" else np.roll(counts, _NUM_BYTES // 2, axis=1)


def _entry(numbers: ByteNumbers) -> dict[str, Any]:
    names = ("values", "not_finite", "min", "max", "mean", "std", "histogram")
    entry = numbers.to_json()
    return {name: entry[name] for name in names}

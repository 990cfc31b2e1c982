"""Rows that wait until there are enough of them for one block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["WaitingRows"]


class WaitingRows:
    """Cuts rows into blocks of one size, whatever the sizes of the calls.

    So sums over blocks, which are rounded, depend only on the rows and their order.

    Args:
        dtype: Dtype of the rows.
        block_rows: Rows per block.
        row_shape: Shape of a row; empty for numbers.
    """

    def __init__(
        self, dtype: np.dtype[Any], block_rows: int, row_shape: tuple[int, ...] = ()
    ) -> None:
        self.block_rows = block_rows
        self._num_waiting = 0
        # Grows with the waiting rows: there may be many fields with few samples each.
        self._memory = np.empty((0, *row_shape), dtype)

    @property
    def waiting(self) -> NDArray[Any]:
        """The rows that wait; valid until the next call."""
        return self._memory[: self._num_waiting]

    @property
    def num_bytes(self) -> int:
        """Bytes of memory that are reserved for waiting rows."""
        return self._memory.nbytes

    def blocks(self, rows: NDArray[Any]) -> Iterator[NDArray[Any]]:
        """Yield the blocks that ``rows`` fill, and keep the rest; consume the iterator.

        Args:
            rows: Of the dtype, shape ``(n, *row_shape)``; the array is not kept. A block is valid
                until the next one.
        """
        while (end := self._num_waiting + len(rows)) >= self.block_rows:
            rest = self.block_rows - self._num_waiting
            block = rows[:rest]
            if self._num_waiting:
                self._reserve(self.block_rows)
                self._memory[self._num_waiting :] = block
                block = self._memory
            self._num_waiting, rows = 0, rows[rest:]
            yield block
        self._reserve(end)
        self._memory[self._num_waiting : end] = rows
        self._num_waiting = end

    def clear(self) -> None:
        """Forget the rows that wait."""
        self._num_waiting = 0

    def _reserve(self, num_rows: int) -> None:
        """Make the memory large enough for ``num_rows``."""
        if num_rows > len(self._memory):
            # Doubled up to a whole block, so that few copies are made.
            shape = (min(self.block_rows, 2 * num_rows), *self._memory.shape[1:])
            larger = np.empty(shape, self._memory.dtype)
            larger[: self._num_waiting] = self.waiting
            self._memory = larger

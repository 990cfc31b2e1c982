"""Memory for columns that is used again once no array refers to it.

New memory for every block of columns costs a page fault per 4 KiB, which takes longer than the
copy that fills it, and is not in the cache. So blocks are kept. A block is free when only its own
arrays refer to it: in numpy every view, also a view of a view, refers to the array that owns the
memory.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.samples._schema import Field, Schema

__all__ = ["ColumnBlock", "ColumnMemory", "items_dtype"]

_ALIGNMENT_BYTES: Final = 64
# Limit for kept blocks: those of the chunks that threads have decoded ahead, and some more.
_KEPT_BYTES: Final = 16 << 20
_FEW_BYTES: Final = 32  # smaller values are copied fastest with their own dtype


class ColumnBlock:
    """Memory for some samples.

    Attributes:
        num_samples: Number of samples that fit.
        columns: Field → array of shape ``(num_samples, *field.shape)``, contiguous.
        items: The same memory with each value of a large field as one item of bytes, which numpy
            copies fastest.
    """

    def __init__(self, fields: list[Field], num_samples: int) -> None:
        self.num_samples = num_samples
        sizes = [num_samples * field.item_bytes for field in fields]
        room = sum(-(-size // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES for size in sizes)
        self._owner = np.empty(room + _ALIGNMENT_BYTES, np.uint8)
        # The first aligned byte of the owner: (-address) mod alignment.
        start = -self._owner.__array_interface__["data"][0] % _ALIGNMENT_BYTES
        self.columns: dict[str, NDArray[Any]] = {}
        self.items: list[NDArray[Any]] = []
        for field, size in zip(fields, sizes, strict=True):
            shape = num_samples, *field.item_shape
            column: NDArray[Any] = np.ndarray(shape, field.values_dtype, self._owner, start)
            self.columns[field.name] = column
            if _is_large(field.item_bytes):
                column = np.ndarray(num_samples, f"V{field.item_bytes}", self._owner, start)
            self.items.append(column)
            start += -(-size // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        # The arrays above refer to the owner; every further array on this memory raises the count.
        self._own_references = self._references()

    def is_free(self) -> bool:
        """Return whether no array outside this block refers to its memory."""
        return self._references() == self._own_references

    def _references(self) -> int:
        return sys.getrefcount(self._owner)


class ColumnMemory:
    """Blocks of one size for the fixed fields of a schema; threads may share the object.

    Args:
        fields: Fields of fixed size.
        num_samples: Number of samples in a block.

    Attributes:
        num_samples: As above.
    """

    def __init__(self, fields: list[Field], num_samples: int) -> None:
        self.num_samples = num_samples
        self._fields = fields
        block_bytes = num_samples * sum(field.item_bytes for field in fields)
        self._blocks: deque[ColumnBlock] = deque(maxlen=_KEPT_BYTES // block_bytes)

    def take(self) -> ColumnBlock:
        """Return a free block; it belongs to the caller until ``give``."""
        for _ in range(len(self._blocks)):
            try:
                # The block that was used last may still be in the cache.
                block = self._blocks.pop()
            except IndexError:
                break
            if block.is_free():
                return block
            self._blocks.appendleft(block)
        return ColumnBlock(self._fields, self.num_samples)

    def give(self, block: ColumnBlock) -> None:
        """Return ``block``; it is free once the arrays that refer to its memory are gone."""
        self._blocks.append(block)


def items_dtype(schema: Schema) -> np.dtype[np.void]:
    """Return the layout of records with each large field as one item of bytes.

    numpy copies rows of a field fastest in this form.
    """
    dtype = schema.fixed_dtype
    names = dtype.names or ()
    return np.dtype(
        [
            (name, f"V{dtype[name].itemsize}" if _is_large(dtype[name].itemsize) else dtype[name])
            for name in names
        ]
    )


def _is_large(item_bytes: int) -> bool:
    """Return whether numpy copies values of this size fastest as items of bytes."""
    return item_bytes >= _FEW_BYTES

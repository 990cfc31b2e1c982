"""The order of samples, and rows of records put into it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trainfeed.dataset.identity import Uint64s
from trainfeed.dataset.order import key_order

__all__ = ["RecordColumn", "end_within", "sample_order"]

# Records that are larger than this are not copied: looking at each takes less, and two copies of
# them could be more than there is room for.
_LARGE_BYTES: Final = 64 << 10


def sample_order(
    keys: Uint64s,
    hashes: Uint64s,
    sources: NDArray[np.int32],
    offsets: NDArray[np.int64],
    ordinals: NDArray[np.int32],
) -> NDArray[np.intp]:
    """Return the permutation that sorts samples by (key, source_hash, offset, ordinal).

    Args:
        keys: Order keys, shape (n,).
        hashes: Hash of every source, by source index.
        sources: Source index per sample.
        offsets: Offset per sample.
        ordinals: Ordinal per sample.
    """
    order = np.argsort(keys)
    ranked = keys[order]
    if (ranked[1:] == ranked[:-1]).any():
        # Hashes of 64 bits hardly ever collide; looking costs a fifth of sorting by all four.
        return key_order(keys, hashes[sources], offsets, ordinals)
    return order


def end_within(ends: NDArray[np.int64], start: int, num_bytes: int) -> int:
    """Return the row behind the last of those that take ``num_bytes`` together, or one row.

    Args:
        ends: Bytes of all rows up to and with each, shape (n,).
        start: The first of the rows.
        num_bytes: What they may take; a single row may take more.
    """
    before = int(ends[start - 1]) if start else 0
    return max(start + 1, int(np.searchsorted(ends, before + num_bytes, side="right")))


class RecordColumn:
    """Moves records in bulk, the faster way where all have one size.

    Args:
        size_bytes: The size of every record, or None when they differ.
    """

    def __init__(self, size_bytes: int | None) -> None:
        self._size = size_bytes

    def gather(
        self, parts: Sequence[pa.Array], order: NDArray[np.intp]
    ) -> pa.Array | pa.ChunkedArray:
        """Return the records of binary arrays, one after another, in ``order``, as binaries.

        Args:
            parts: Binary or large binary arrays of n records together.
            order: Permutation of their n rows.

        Returns:
            An array of its own; of large records an array of chunks that share their memory.
        """
        num_bytes = sum(part.nbytes for part in parts)
        if num_bytes > _LARGE_BYTES * len(order):
            rows = [p.slice(row, 1) for p in map(_as_binary, parts) for row in range(len(p))]
            return pa.chunked_array([rows[row] for row in order.tolist()], pa.binary())
        if self._size is None:
            whole = pa.concat_arrays([pa.array([], pa.binary()), *map(_as_binary, parts)])
            return whole.take(pa.array(order))
        empty = np.empty(0, dtype=f"V{self._size}")
        return self._wrap(np.concatenate([empty, *map(self.rows, parts)])[order])

    def rows(self, records: pa.Array) -> NDArray[np.void]:
        """Return records of one size as an array of voids that shares their memory."""
        size = self._size or 0
        _, ends, data = records.buffers()
        width = np.int64 if pa.types.is_large_binary(records.type) else np.int32
        start = int(np.frombuffer(ends, width)[records.offset]) if len(records) else 0
        view = np.frombuffer(data if len(records) else b"", np.uint8)
        return view[start : start + len(records) * size].view(f"V{size}")

    def joined(self, records: pa.ChunkedArray) -> NDArray[np.void]:
        """Return records of one size as an array of voids, which shares the memory of one chunk."""
        parts = [self.rows(chunk) for chunk in records.chunks]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    @property
    def size_bytes(self) -> int:
        """The size of every record, 0 when they differ."""
        return self._size or 0

    def _wrap(self, rows: NDArray[np.void]) -> pa.Array:
        """Return an array of voids as a binary array that shares its memory."""
        ends = np.arange(len(rows) + 1, dtype=np.int32) * np.int32(rows.itemsize)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(rows)]
        return pa.Array.from_buffers(pa.binary(), len(rows), buffers)


def _as_binary(records: pa.Array) -> pa.Array:
    return records.cast(pa.binary())

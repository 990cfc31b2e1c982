"""The order of samples, and the columns of records in that order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trainfeed.dataset.order import Uint64s, key_order, source_hash
from trainfeed.samples import Schema

__all__ = ["RecordColumn", "end_within", "hashes_of", "sample_order"]

# Records above this mean size are not copied but referred to one by one: that is faster, and there
# may be no room for two copies.
_LARGE_BYTES: Final = 64 << 10


def hashes_of(sources: Sequence[str]) -> Uint64s:
    """Return the hash of every source, shape (n,)."""
    return np.array([source_hash(source) for source in sources], dtype=np.uint64)


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
        # Equal keys need the full order. They hardly ever occur with 64-bit hashes, and this look
        # costs a fifth of a sort by all four columns.
        return key_order(keys, hashes[sources], offsets, ordinals)
    return order


def end_within(ends: NDArray[np.int64], start: int, num_bytes: int) -> int:
    """Return the end (exclusive) of the rows from ``start`` on that fit into ``num_bytes``.

    Args:
        ends: Cumulative bytes: of all rows up to and including each row, shape (n,).
        start: The first row.
        num_bytes: Limit for the rows together; a single larger row is still taken.
    """
    before = int(ends[start - 1]) if start else 0
    return max(start + 1, int(np.searchsorted(ends, before + num_bytes, side="right")))


class RecordColumn:
    """Moves records in bulk; faster if all have the same size.

    Args:
        size_bytes: The size of every record, or None if sizes differ.
    """

    def __init__(self, size_bytes: int | None) -> None:
        self._size = size_bytes

    @classmethod
    def of(cls, schema: Schema) -> Self:
        """Return the column for the records of a schema."""
        return cls(schema.record_dtype.itemsize if schema.is_fixed else None)

    def gather(
        self, parts: Sequence[pa.Array], order: NDArray[np.intp]
    ) -> pa.Array | pa.ChunkedArray:
        """Return the records of several binary arrays in ``order``, as one column.

        Args:
            parts: Binary or large binary arrays with n records together.
            order: Permutation of the n rows of the joined parts.

        Returns:
            A new array; for large records a chunked array that shares the memory of ``parts``.
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
        """Return records of one size as a void array of shape (n,) that shares their memory."""
        size = self._size or 0
        # A binary array in memory: n + 1 ends (32 or 64 bits), then the bytes of all records. The
        # ends of a slice begin at its offset, and its first byte is at the first of these ends.
        _, ends, data = records.buffers()
        width = np.int64 if pa.types.is_large_binary(records.type) else np.int32
        start = int(np.frombuffer(ends, width)[records.offset]) if len(records) else 0
        view = np.frombuffer(data if len(records) else b"", np.uint8)
        return view[start : start + len(records) * size].view(f"V{size}")

    def joined(self, records: pa.ChunkedArray) -> NDArray[np.void]:
        """Return records of one size as a void array; a single chunk is not copied."""
        parts = [self.rows(chunk) for chunk in records.chunks]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    @property
    def size_bytes(self) -> int:
        """The size of every record, 0 if sizes differ."""
        return self._size or 0

    def _wrap(self, rows: NDArray[np.void]) -> pa.Array:
        """Return a void array as a binary array that shares its memory."""
        ends = np.arange(len(rows) + 1, dtype=np.int32) * np.int32(rows.itemsize)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(rows)]
        return pa.Array.from_buffers(pa.binary(), len(rows), buffers)


def _as_binary(records: pa.Array) -> pa.Array:
    return records.cast(pa.binary())

"""The digest of landing files whose trailer has no number, as earlier releases wrote them.

It is the SHA-256 over every record in order, integers little-endian::

    record   := offset i64, timestamp i64, length i32, key, length i32, value

where a length of -1 stands for null. Headers and the kind of timestamp are not covered.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["LegacyDigest"]

_NOTHING = pa.scalar(b"", pa.large_binary())
_HEAD = np.dtype([("offset", "<i8"), ("timestamp", "<i8"), ("key_bytes", "<i4")])


class LegacyDigest:
    """A running digest of records."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def update(self, batch: pa.RecordBatch) -> None:
        """Take in the records of a batch of ``LANDING_SCHEMA``."""
        key, value = batch.column("key"), batch.column("value")
        head = np.empty(batch.num_rows, _HEAD)
        head["offset"] = batch.column("offset").to_numpy()
        head["timestamp"] = batch.column("timestamp").to_numpy()
        head["key_bytes"] = _lengths(key)
        # Joined by Arrow, because packing records one by one takes twice as long. Large arrays,
        # because a batch of big records can exceed 32-bit offsets.
        joined = pc.binary_join_element_wise(
            _pieces(head), _present(key), _pieces(_lengths(value)), _present(value), _NOTHING
        )
        self._hash.update(memoryview(_data(joined)))

    def hexdigest(self) -> str:
        """Return the digest of everything so far as 64 hex digits."""
        return self._hash.hexdigest()


def _lengths(column: pa.Array) -> np.ndarray[Any, np.dtype[np.int32]]:
    lengths = pc.fill_null(pc.binary_length(column), -1).to_numpy()
    return np.ascontiguousarray(lengths, dtype="<i4")


def _present(column: pa.Array) -> pa.Array:
    return pc.fill_null(column, b"").cast(pa.large_binary())


def _pieces(values: np.ndarray[Any, Any]) -> pa.Array:
    """Return the items of a packed array as Arrow binaries that share its memory."""
    ends = np.arange(len(values) + 1, dtype=np.int64) * values.itemsize
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(values)]
    return pa.Array.from_buffers(pa.large_binary(), len(values), buffers)


def _data(column: pa.Array) -> pa.Buffer:
    """Return the bytes of a large binary array that starts at its buffers' beginning."""
    _, ends, data = column.buffers()
    num_bytes = int(np.frombuffer(ends, np.int64, len(column) + 1)[-1])
    return data.slice(0, num_bytes) if data is not None else pa.py_buffer(b"")

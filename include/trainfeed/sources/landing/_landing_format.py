"""Landing files: the records of one planned range, unchanged from the source.

A landing file is an Arrow IPC file of ``LANDING_SCHEMA`` compressed with zstd level 1::

    file     := batch* trailer          (and Arrow's own footer)
    batch    := 1 to BATCH_ROWS records, offsets ascending
    trailer  := batch of 0 rows; custom_metadata {content: <64 hex digits>, …}

``content`` is the SHA-256 over every record in order, integers little-endian::

    record   := offset i64, timestamp i64, length i32, key, length i32, value

where a length of -1 stands for null. Headers and the kind of timestamp are not covered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trainfeed.sources._topic import check_topic_name

__all__ = [
    "BATCH_ROWS",
    "CONTENT",
    "LANDING_SCHEMA",
    "ContentDigest",
    "LandingWriter",
    "landing_folder",
    "landing_name",
    "partition_folder",
]

LANDING_SCHEMA: Final = pa.schema(
    [
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),  # milliseconds since 1970 UTC
        ("timestamp_type", pa.int8()),  # 0 none, 1 set by the producer, 2 set by the broker
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.utf8()), ("value", pa.binary())]))),
    ]
)
BATCH_ROWS: Final = 16_384
CONTENT: Final = "content"
_NOTHING = pa.scalar(b"", pa.large_binary())
_HEAD = np.dtype([("offset", "<i8"), ("timestamp", "<i8"), ("key_bytes", "<i4")])


def landing_name(start: int, end: int) -> str:
    """Return the file name of the records of offsets ``[start, end)``."""
    return f"{start:020d}-{end:020d}.arrow"


def landing_folder(topic: str, uuid: str, partition: int) -> str:
    """Return the folder of a partition's landing files, relative to the landing area.

    Raises:
        ConfigError: ``topic`` or ``uuid`` could lead out of that area.
    """
    return f"{check_topic_name(topic)}/{check_topic_name(uuid)}/{partition_folder(partition)}"


def partition_folder(partition: int) -> str:
    """Return the name of the folder that holds a partition's files."""
    return f"p={partition}"


class ContentDigest:
    """The running ``content`` digest of a landing file."""

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


class LandingWriter:
    """Writes one landing file; without ``close`` the file is torn, and readers refuse it.

    Args:
        file: The file to write. The caller closes it, after ``close``.
    """

    def __init__(self, file: BinaryIO) -> None:
        options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=1))
        self._writer = pa.ipc.new_file(file, LANDING_SCHEMA, options=options)
        self._digest = ContentDigest()

    @property
    def content(self) -> str:
        """Digest of the records written so far, as 64 hex digits."""
        return self._digest.hexdigest()

    def write(self, batch: pa.RecordBatch) -> None:
        """Append records; ``batch`` has ``LANDING_SCHEMA``.

        Raises:
            ValueError: The batch has another schema.
        """
        if not batch.schema.equals(LANDING_SCHEMA):
            raise ValueError(f"expected the schema of landing files, got {batch.schema}")
        for start in range(0, batch.num_rows, BATCH_ROWS):
            piece = batch.slice(start, BATCH_ROWS)
            self._digest.update(piece)
            self._writer.write_batch(piece)

    def close(self, metadata: Mapping[str, str]) -> None:
        """Write the trailer and Arrow's footer; the caller then closes its file.

        Args:
            metadata: Texts known only at the end, such as the ledger; ``content`` is added.
        """
        trailer = pa.RecordBatch.from_pylist([], schema=LANDING_SCHEMA)
        entries = {**metadata, CONTENT: self.content}
        self._writer.write_batch(trailer, custom_metadata=entries)
        self._writer.close()

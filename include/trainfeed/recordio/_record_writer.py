"""Collects records into chunks and writes them; equal records give equal bytes."""

from __future__ import annotations

from typing import Any, BinaryIO, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import ConfigError
from trainfeed.paths import FilePath, TargetWriter
from trainfeed.recordio._chunk import encode_chunk
from trainfeed.recordio._filling import ChunkFraming, ChunkLimits
from trainfeed.recordio._recordio_format import LENGTH, MAX_RAW_BYTES, ChunkInfo, Codec
from trainfeed.recordio.compression import resolve_level

__all__ = ["RecordWriter"]

# Offsets in a framing of this size fit into int32, and the length of any payload into uint32.
_LARGEST_RAW_BYTES: Final = (1 << 31) - 1


class RecordWriter(TargetWriter):
    """Writes records to a file.

    A chunk is closed before a record that would make its records, without their lengths, exceed
    ``max_chunk_bytes``; so only a chunk of a single record can be larger. If no record of a full
    chunk is larger than 4 KiB, the records beyond a multiple of ``quantum_records`` go to the next
    chunk, so that batches of a reader lie within one chunk.

    The end of the context closes the file; after an exception it drops the file. After an error of
    the file the writer is closed, and its output must not be used. Threads must not share it.

    A writer without records leaves a file of 0 bytes.

    Args:
        target: A path, where the file appears when the writer is closed; or a binary file, which
            receives chunks from its position on, some of them only when the writer is closed, and
            stays open.
        codec: How chunks are compressed.
        level: 1 to 22 for ZSTD, 1 to 9 for GZIP; None for the default, and for other codecs.
        max_chunk_bytes: Record bytes at which a chunk is closed. With 0 every record that is not
            empty gets a chunk of its own.
        quantum_records: See above; with 1 every chunk is filled up.
        max_raw_bytes: Limit for the bytes of a chunk's framing. Readers refuse chunks beyond the
            default unless they get the same limit.

    Attributes:
        chunks: The chunks so far; complete, and in the file, after ``close``.

    Raises:
        ConflictError: A file exists at the path.
        ConfigError: The codec has no such level, or an option is out of range.
    """

    # Whether chunks may wait for further ones, which are written with the same call.
    _gathers_chunks: ClassVar[bool] = True

    def __init__(
        self,
        target: FilePath | BinaryIO,
        *,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        max_chunk_bytes: int = 1 << 20,
        quantum_records: int = 256,
        max_raw_bytes: int = MAX_RAW_BYTES,
    ) -> None:
        self.chunks: list[ChunkInfo] = []
        self._codec = Codec(codec)
        self._level = resolve_level(self._codec, level)
        limits = _checked_limits(max_chunk_bytes, max_raw_bytes, quantum_records)
        self._pending = ChunkFraming(limits)
        self._num_written = 0
        super().__init__(target)
        self._offset_bytes: int = self._require_open().tell()

    @property
    def num_records(self) -> int:
        """Number of records so far, including those that are not in a chunk yet."""
        return self._num_written + self._pending.num_records

    def write(self, record: bytes | bytearray | memoryview) -> None:
        """Add a record.

        Raises:
            FormatError: The record does not fit into a chunk of ``max_raw_bytes``.
            QuotaExceededError: The disk is full.
            StorageError: The file refused the bytes.
        """
        pending = self._pending
        # The path of most records; without a further call it takes half of a record's whole cost.
        if (room := pending.room) and type(record) is bytes and len(record) == pending.size:
            pending.room = room - 1
            pending.records.append(record)
        else:
            self._write(record)

    def write_array(self, records: NDArray[Any]) -> None:
        """Add records of one size; the file is the same as from ``write`` for each of them.

        Args:
            records: Shape ``(n,)``, any dtype without Python objects, usually a structured one;
                the bytes of an item are a record.

        Raises:
            FormatError: An item does not fit into a chunk of ``max_raw_bytes``.
            QuotaExceededError: The disk is full.
            StorageError: The file refused the bytes.
        """
        self._require_open()
        if records.ndim != 1 or records.dtype.hasobject or not records.itemsize:
            raise TypeError(
                "expected an array of shape (n,) without Python objects, got"
                f" {records.dtype} {records.shape}"
            )
        # As plain bytes, so that all dtypes are framed by the same code.
        items = np.ascontiguousarray(records).view(f"V{records.itemsize}")
        # ``extend`` takes as many as fit; a full chunk is written before the rest is tried.
        while len(items := items[self._pending.extend(items) :]):
            self._write_chunk()

    def _write(self, record: bytes | bytearray | memoryview) -> None:
        self._require_open()
        data = record if type(record) is bytes else bytes(memoryview(record))
        # False means that the chunk is full; a record always fits the empty chunk that follows.
        while not self._pending.append(data):
            self._write_chunk()

    def _write_chunk(self, *, last: bool = False) -> None:
        framing, num_records = self._pending.take(last=last)
        chunk = encode_chunk(framing, num_records, codec=self._codec, level=self._level)
        # The payload may be the framing itself, whose memory is not used again while the payload
        # waits.
        put = self._put_later if self._gathers_chunks else self._put
        put(chunk.header.dump(), chunk.payload)
        info = ChunkInfo(
            offset_bytes=self._offset_bytes,
            stored_bytes=len(chunk.payload),
            raw_bytes=len(framing),
            num_records=num_records,
            crc32=chunk.header.crc32,
            codec=self._codec,
        )
        self.chunks.append(info)
        self._offset_bytes = info.end_bytes
        self._num_written += num_records

    def _write_rest(self) -> None:
        if self._pending.num_records:
            self._write_chunk(last=True)

    def _end(self) -> None:
        super()._end()
        # Withdraws the granted room, so that every later write goes through _write, which raises.
        self._pending.settle()


def _checked_limits(max_chunk_bytes: int, max_raw_bytes: int, quantum_records: int) -> ChunkLimits:
    if max_chunk_bytes < 0 or quantum_records < 1:
        raise ConfigError(
            "expected max_chunk_bytes from 0 and quantum_records from 1, got"
            f" {max_chunk_bytes} and {quantum_records}"
        )
    if not LENGTH.size <= max_raw_bytes <= _LARGEST_RAW_BYTES:
        raise ConfigError(
            f"expected max_raw_bytes from {LENGTH.size} to {_LARGEST_RAW_BYTES}, got"
            f" {max_raw_bytes}"
        )
    return ChunkLimits(max_chunk_bytes, max_raw_bytes, quantum_records)

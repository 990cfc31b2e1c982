"""Writing of records; equal records give equal bytes."""

from __future__ import annotations

import zlib
from typing import BinaryIO, Final

from crc32c import crc32c

from trainfeed.errors import ConfigError, FormatError
from trainfeed.files import FilePath, TargetWriter
from trainfeed.tfrecord.format import (
    CHECKSUM,
    MAX_RECORD_BYTES,
    Compression,
    compression_named,
    masked,
    pack_header,
)

# Bytes of records that are collected before they are written to the file.
_BUFFER_BYTES: Final = 1 << 20
# zlib's codes for the wrapper: 16 + 15 writes a gzip header, 15 a zlib header.
_WINDOW_BITS: Final = {Compression.GZIP: 31, Compression.ZLIB: 15}


class TFRecordWriter(TargetWriter):
    """Writes records to a file.

    The end of the context closes the file; after an exception it drops the file. After an error of
    the file the writer is closed, and its output must not be used. Threads must not share it.

    A writer without records leaves an empty file, or a compressed file with empty content.

    Args:
        target: A path, where the file appears when the writer is closed; or a binary file, which
            receives records from its position on and stays open.
        compression: ``""``, ``"GZIP"`` or ``"ZLIB"``.
        level: 1 to 9; None for the default level, or without compression.
        max_record_bytes: Limit for the length of a record. Readers refuse longer records than the
            default unless they get the same limit.

    Attributes:
        num_records: Number of records so far.

    Raises:
        ConflictError: A file exists at the path.
        ConfigError: The compression is unknown, or does not have the level.
    """

    def __init__(
        self,
        target: FilePath | BinaryIO,
        compression: Compression | str = Compression.NONE,
        *,
        level: int | None = None,
        max_record_bytes: int = MAX_RECORD_BYTES,
    ) -> None:
        self.num_records = 0
        self._deflater = _deflater(compression, level)
        self._max_record_bytes = max_record_bytes
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._header = b""
        self._header_num_bytes = -1
        super().__init__(target)

    def write(self, record: bytes | bytearray | memoryview) -> None:
        """Add a record.

        Raises:
            FormatError: The record is longer than ``max_record_bytes``.
            QuotaExceededError: The disk is full.
            StorageError: The file refused the bytes.
        """
        self._require_open()
        if not isinstance(record, bytes):
            record = bytes(memoryview(record))
        num_bytes = len(record)
        # A header depends on the length only: records of one length share it.
        if num_bytes != self._header_num_bytes:
            self._require_fit(num_bytes)
            self._header, self._header_num_bytes = pack_header(num_bytes), num_bytes
        self._pending += self._header, record, CHECKSUM.pack(masked(crc32c(record)))
        self._pending_bytes += num_bytes
        self.num_records += 1
        # Headers and checksums count too: many short records must not collect without end.
        if self._pending_bytes + 16 * len(self._pending) >= _BUFFER_BYTES:
            self._flush()

    def _write_rest(self) -> None:
        self._flush(last=True)

    def _flush(self, *, last: bool = False) -> None:
        data = b"".join(self._pending)
        self._pending, self._pending_bytes = [], 0
        if self._deflater is not None:
            data = self._deflater.compress(data) + (self._deflater.flush() if last else b"")
        self._put(data)

    def _require_fit(self, num_bytes: int) -> None:
        if num_bytes > self._max_record_bytes:
            raise FormatError(
                f"expected a record of at most {self._max_record_bytes} bytes, got {num_bytes};"
                " raise max_record_bytes of the writer and of every reader"
            )


def framed_record(record: bytes) -> bytes:
    """Return a record as a file holds it, for files to which single records are appended."""
    return pack_header(len(record)) + record + CHECKSUM.pack(masked(crc32c(record)))


def _deflater(compression: Compression | str, level: int | None) -> zlib._Compress | None:
    kind = compression_named(compression)
    if kind is Compression.NONE:
        if level is not None:
            raise ConfigError(f"expected no level without compression, got {level}")
        return None
    if level is not None and not 1 <= level <= 9:
        raise ConfigError(f"expected a level from 1 to 9 for {kind}, got {level}")
    # With the default level the header equals TensorFlow's: no time, no name.
    chosen = zlib.Z_DEFAULT_COMPRESSION if level is None else level
    return zlib.compressobj(chosen, zlib.DEFLATED, _WINDOW_BITS[kind])

"""A file as a stream of bytes: decompressed if necessary, and never more than requested at once."""

from __future__ import annotations

from typing import BinaryIO, ClassVar, Final, Protocol

from isal import isal_zlib

from trainfeed.errors import FormatError, TruncatedError
from trainfeed.paths import os_errors, path_of
from trainfeed.tfrecord._tfrecord_format import HEADER_BYTES, Compression, has_valid_header

__all__ = ["BLOCK_BYTES", "Stream", "open_stream", "sniff"]

# Measured: larger blocks exceed the cache of the processor and read a third slower.
BLOCK_BYTES: Final = 1 << 18
# The decompressor copies its unused input at every call, so it gets small blocks.
_COMPRESSED_BLOCK_BYTES: Final = 1 << 16

_WINDOW_BITS: Final = {Compression.GZIP: 31, Compression.ZLIB: 15}
_GZIP_MAGIC: Final = b"\x1f\x8b"
_ZLIB_FIRST_BYTE: Final = 0x78
_ZLIB_CHECK: Final = 31  # the first two bytes, big-endian, are a multiple of 31
# The type stub of the library declares an instance; it is a class.
_INFLATE_ERROR: Final[type[Exception]] = isal_zlib.error  # type: ignore[assignment]


class Stream(Protocol):
    """A stream of bytes.

    Attributes:
        is_plain: Whether the bytes are those of the file, without decompression.
    """

    is_plain: ClassVar[bool]

    def read(self, num_bytes: int) -> bytes:
        """Return up to ``num_bytes``; empty only at the end."""


def open_stream(file: BinaryIO, compression: Compression | None) -> Stream:
    """Return the content of a file as a stream, after decompression.

    Args:
        file: A binary file, read from its position on.
        compression: Compression of the file; None recognises it by the first bytes.
    """
    raw = _RawStream(file)
    if compression is None:
        compression = sniff(raw.peek(HEADER_BYTES))
    return raw if compression is Compression.NONE else _InflatedStream(raw, compression)


class _RawStream:
    is_plain: ClassVar = True

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._path = path_of(file)
        self._peeked = b""

    def peek(self, num_bytes: int) -> bytes:
        """Return the next bytes without consuming them; fewer only at the end."""
        while len(self._peeked) < num_bytes and (data := self._next(num_bytes)):
            self._peeked += data
        return self._peeked

    def read(self, num_bytes: int) -> bytes:
        if self._peeked:
            data, self._peeked = self._peeked, b""
            return data
        return self._next(num_bytes)

    def _next(self, num_bytes: int) -> bytes:
        with os_errors(self._path):
            return self._file.read(num_bytes)


class _InflatedStream:
    is_plain: ClassVar = False

    def __init__(self, stream: Stream, compression: Compression) -> None:
        self._stream = stream
        self._compression = compression
        self._pending = stream.read(_COMPRESSED_BLOCK_BYTES)
        self._decoder = isal_zlib.decompressobj(_WINDOW_BITS[compression])
        # An empty file has no records, whatever compression was stated.
        self._is_complete = not self._pending

    def read(self, num_bytes: int) -> bytes:
        while not self._is_complete:
            if data := self._inflate(num_bytes):
                return data
            if self._decoder.eof:
                self._start_next_member()
            elif not self._pending and not self._refill():
                raise TruncatedError(f"expected more {self._compression} data, the file ends")
        return b""

    def _inflate(self, num_bytes: int) -> bytes:
        try:
            data: bytes = self._decoder.decompress(self._pending, num_bytes)
        except _INFLATE_ERROR as error:
            raise FormatError(f"expected {self._compression} data, got {error}") from error
        self._pending = self._decoder.unconsumed_tail
        return data

    def _start_next_member(self) -> None:
        self._pending = self._decoder.unused_data
        if not self._pending and not self._refill():
            self._is_complete = True
        elif self._compression is Compression.ZLIB:
            raise FormatError("expected nothing behind the end of the ZLIB data")
        else:
            self._decoder = isal_zlib.decompressobj(_WINDOW_BITS[self._compression])

    def _refill(self) -> bool:
        self._pending = self._stream.read(_COMPRESSED_BLOCK_BYTES)
        return bool(self._pending)


def sniff(head: bytes) -> Compression:
    """Return the compression of a file, by its first ``HEADER_BYTES`` bytes."""
    # The checksum of a header decides first: a record of 120 bytes starts like ZLIB, and one of
    # 35,615 bytes like GZIP.
    if has_valid_header(head):
        return Compression.NONE
    if head.startswith(_GZIP_MAGIC):
        return Compression.GZIP
    if head[:1] == bytes([_ZLIB_FIRST_BYTE]) and not int.from_bytes(head[:2]) % _ZLIB_CHECK:
        return Compression.ZLIB
    return Compression.NONE

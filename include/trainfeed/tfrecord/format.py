"""The format of TFRecord files: framing, limits, compression, and the files that readers take."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from struct import Struct
from typing import BinaryIO, ClassVar, Final, Protocol

import numpy as np
from crc32c import crc32c
from isal import isal_zlib
from numpy.typing import NDArray

from trainfeed.errors import ChecksumError, ConfigError, FormatError, TruncatedError
from trainfeed.files import FilePath, open_plain, os_errors, path_of

# --- The input of readers: paths, or open binary files


class FirstBytes:
    """The first bytes of an open file, as a file that ends there; shares its position.

    Args:
        file: A seekable binary file.
        end_bytes: Where to end.
    """

    def __init__(self, file: BinaryIO, end_bytes: int) -> None:
        self._file = file
        self._end_bytes = end_bytes
        self.name = path_of(file)

    def tell(self) -> int:
        """Return the position."""
        return self._file.tell()

    def seek(self, offset_bytes: int, whence: int = os.SEEK_SET) -> int:
        """Move to a position, from the start or, with ``SEEK_END``, from the end."""
        from_end = whence == os.SEEK_END
        return self._file.seek(offset_bytes + (self._end_bytes if from_end else 0))

    def read(self, num_bytes: int) -> bytes:
        """Return up to ``num_bytes``; none at the end."""
        return self._file.read(max(min(num_bytes, self._end_bytes - self._file.tell()), 0))


@contextmanager
def open_file(file: FilePath | BinaryIO) -> Iterator[BinaryIO]:
    """Open a path and close it at the end; yield a binary file unchanged and leave it open.

    Raises:
        NotFoundError: No file is at the path.
        FormatError: The path is not a plain file.
        StorageError: The file cannot be opened.
    """
    if not isinstance(file, str | os.PathLike):
        yield file
        return
    with open_plain(file, follow=True, buffering=0) as opened:
        yield opened


def read_at(file: BinaryIO, offset_bytes: int, num_bytes: int, path: str | None) -> bytes:
    """Return bytes of a seekable file, fewer only at its end; moves the position of the file.

    Raises:
        StorageError: The file cannot be read.
    """
    pieces, left_bytes = [], num_bytes
    with os_errors(path):
        file.seek(offset_bytes)
        while left_bytes and (piece := file.read(left_bytes)):
            pieces.append(piece)
            left_bytes -= len(piece)
    return b"".join(pieces)


# --- The TFRecord file format. All integers are little-endian

CHECKSUM: Final = Struct("<I")
LENGTH: Final = Struct("<Q")
HEADER: Final = Struct("<QI")
HEADER_BYTES: Final = HEADER.size

# Default limit of readers for the length of a record, the same as for a chunk of RecordIO.
MAX_RECORD_BYTES: Final = 64 << 20


class Compression(StrEnum):
    """Compression of a whole file; the values are TensorFlow's names."""

    NONE = ""
    GZIP = "GZIP"
    ZLIB = "ZLIB"


def compression_named(name: Compression | str) -> Compression:
    """Return the compression of a name.

    Raises:
        ConfigError: The name is unknown.
    """
    try:
        return Compression(name)
    except ValueError:
        known = ", ".join(repr(str(known)) for known in Compression)
        raise ConfigError(f"expected a compression of {known}, got {name!r}") from None


def masked(checksum: int) -> int:
    """Return a CRC-32C in its stored form: rotated right by 15 bits, plus a constant."""
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF


def unmasked(stored: int) -> int:
    """Return the CRC-32C of the stored form: the inverse of ``masked``."""
    rotated = (stored - 0xA282EAD8) & 0xFFFFFFFF
    return (rotated >> 17 | rotated << 15) & 0xFFFFFFFF


def masked_array(checksums: Sequence[int] | NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return many checksums, shape ``(n,)``, in their stored form; see ``masked``."""
    values: NDArray[np.uint32] = np.asarray(checksums, np.uint32)
    # uint32 arithmetic wraps around, as the format requires.
    rotated: NDArray[np.uint32] = np.bitwise_or(values >> 15, values << 17)
    return rotated + np.uint32(0xA282EAD8)


def pack_header(num_bytes: int) -> bytes:
    """Return the header of a record of ``num_bytes``."""
    length = LENGTH.pack(num_bytes)
    return length + CHECKSUM.pack(masked(crc32c(length)))


def unpack_header(header: bytes, max_record_bytes: int) -> int:
    """Return the length that a header states.

    Args:
        header: ``HEADER_BYTES`` bytes.
        max_record_bytes: Limit for the length of a record; a longer one is refused.

    Raises:
        ChecksumError: The header is damaged, or no record starts here.
        FormatError: The record is longer than allowed.
    """
    num_bytes, stored = HEADER.unpack(header)
    computed = masked(crc32c(header[: LENGTH.size]))
    if computed != stored:
        raise ChecksumError(
            f"expected masked CRC-32C {stored:#010x} of the length, got {computed:#010x}"
        )
    if num_bytes > max_record_bytes:
        raise FormatError(
            f"expected a record of at most {max_record_bytes} bytes, it announces {num_bytes};"
            " raise max_record_bytes if the file can be trusted"
        )
    return int(num_bytes)


def has_valid_header(head: bytes) -> bool:
    """Return whether a file that starts with ``head`` starts with a record."""
    if len(head) < HEADER_BYTES:
        return False
    stored = HEADER.unpack_from(head)[1]
    return bool(masked(crc32c(head[: LENGTH.size])) == stored)


# --- A file as a stream of bytes: decompressed if necessary, and never more than requested at once

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

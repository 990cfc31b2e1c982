"""The format of RecordIO: header of a chunk, framing of records, limits."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from itertools import pairwise
from struct import Struct
from types import TracebackType
from typing import ClassVar, Final, NamedTuple

from trainfeed.errors import BadMagicError, FormatError, UnsupportedCodecError

# --- The RecordIO file format. All integers are little-endian uint32

MAGIC: Final = 0x01020304
# MXNet's format of the same name.
_MXNET_MAGIC: Final = 0xCED7230A
LENGTH: Final = Struct("<I")
# magic, CRC-32 of the payload as stored, codec, payload bytes, number of records
_HEADER: Final = Struct("<5I")
HEADER_BYTES: Final = _HEADER.size

# Default limit of readers for the framing of a chunk: twice the largest chunk that other writers
# make by default. The writer here stays below it.
MAX_RAW_BYTES: Final = 64 << 20


class Codec(IntEnum):
    """How a payload is compressed. The values are stored on disk.

    Files that leave the project use NONE, SNAPPY or GZIP: other implementations know no more.
    """

    NONE = 0
    SNAPPY = 1  # the framing format, one stream
    GZIP = 2  # one member
    LZ4 = 16  # raw length as uint32, then one block
    ZSTD = 17  # one frame that states its content size


@dataclass(frozen=True)
class ChunkInfo:
    """Place and properties of a chunk, as an index holds them.

    Attributes:
        offset_bytes: Start of the header in the file.
        stored_bytes: Length of the stored payload, without the 20 bytes of the header.
        raw_bytes: Length of the framing, that is, before compression.
        num_records: Number of records.
        crc32: Checksum of the stored payload.
        codec: How the payload is compressed.
        head_bytes: Length of the header, the same for every chunk.
    """

    head_bytes: ClassVar[int] = HEADER_BYTES

    offset_bytes: int
    stored_bytes: int
    raw_bytes: int
    num_records: int
    crc32: int
    codec: Codec

    @property
    def end_bytes(self) -> int:
        """Start of the next chunk in the file."""
        return self.offset_bytes + HEADER_BYTES + self.stored_bytes

    @cached_property
    def header(self) -> bytes:
        """The bytes of the header, ``HEADER_BYTES``."""
        return Header(self.crc32, self.codec, self.stored_bytes, self.num_records).dump()


class Header(NamedTuple):
    """The words of a chunk's header after the magic."""

    crc32: int
    codec: Codec
    stored_bytes: int
    num_records: int

    @classmethod
    def parse(cls, data: bytes | bytearray | memoryview) -> Header:
        """Read a header.

        Args:
            data: ``HEADER_BYTES`` bytes.

        Raises:
            BadMagicError: No chunk starts here.
            UnsupportedCodecError: This version does not know the codec.
        """
        magic, crc32, codec, stored_bytes, num_records = _HEADER.unpack(data)
        if magic != MAGIC:
            named = ", which is MXNet's RecordIO" if magic == _MXNET_MAGIC else ""
            raise BadMagicError(f"expected magic {MAGIC:#010x}, got {magic:#010x}{named}")
        return cls(crc32, _codec(codec), stored_bytes, num_records)

    def dump(self) -> bytes:
        """Return the header's ``HEADER_BYTES`` bytes."""
        return _HEADER.pack(MAGIC, *self)


def _codec(number: int) -> Codec:
    try:
        return Codec(number)
    except ValueError:
        known = ", ".join(f"{codec.value} {codec.name.lower()}" for codec in Codec)
        raise UnsupportedCodecError(
            f"expected one of the codecs {known}; got {number}: the header is damaged, or a newer"
            " version wrote it"
        ) from None


def located(
    path: str | None, offset_bytes: int, number: int | None = None
) -> AbstractContextManager[None]:
    """Add file, byte offset and chunk number to the format errors of a block.

    Args:
        path: The file, None when unknown.
        offset_bytes: Start of the chunk in the file.
        number: Number of the chunk in the file, from 0; None when unknown.
    """
    return _Located(path, offset_bytes, number)


class _Located(AbstractContextManager[None]):
    """A class, not a generator: the context is entered for every chunk, and a class is faster."""

    __slots__ = ("_number", "_offset_bytes", "_path")

    def __init__(self, path: str | None, offset_bytes: int, number: int | None) -> None:
        self._path = path
        self._offset_bytes = offset_bytes
        self._number = number

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # An inner context knows the place better: it is not overwritten.
        if isinstance(error, FormatError) and error.offset_bytes is None:
            error.path, error.offset_bytes = self._path, self._offset_bytes
            if self._number is not None:
                error.args = (f"chunk {self._number}: {error.args[0]}",)


# --- Framing: records with their lengths, before compression


def split_records(framing: memoryview, num_records: int) -> list[memoryview]:
    """Cut a framing into its records.

    Args:
        framing: The framing from ``iter_chunks`` or ``read_chunk``.
        num_records: Number of records in the chunk's header.

    Returns:
        Views into ``framing``, valid as long as ``framing`` is.

    Raises:
        FormatError: ``num_records`` records do not end exactly where the framing ends.
    """
    return list(iter_records(framing, record_bounds(framing, num_records)))


def iter_records(framing: memoryview, bounds: array[int]) -> Iterator[memoryview]:
    """Yield the records between consecutive bounds, as views into ``framing``."""
    for start, end in pairwise(bounds):
        yield framing[start + 4 : end]


def record_bounds(framing: memoryview, num_records: int) -> array[int]:
    """Return the start of each record with its length word, and the end of the last record.

    The result is an array, not a list of records: an empty record takes 4 bytes of framing, so a
    few kilobytes could decompress to gigabytes of Python objects.

    Raises:
        FormatError: ``num_records`` records do not end exactly where the framing ends.
    """
    check_sizes(num_records, len(framing))
    bounds = array("Q", [0])
    append, unpack, start = bounds.append, LENGTH.unpack_from, 0
    try:
        for _ in range(num_records):
            # unpack raises struct.error once ``start`` has passed the end of the framing.
            start += 4 + unpack(framing, start)[0]
            append(start)
    except struct.error:
        start = len(framing) + 1
    # ``start`` only grows, so this comparison finds every length that is too large, and also a
    # damaged record count, which no checksum covers.
    if start != len(framing):
        raise FormatError(
            f"expected {num_records} records in {len(framing)} bytes of framing, but they end"
            f" {'before' if start < len(framing) else 'after'} it does"
        )
    return bounds


def check_sizes(num_records: int, raw_bytes: int, max_raw_bytes: int | None = None) -> None:
    """Refuse a chunk that is too large, or too small for its records.

    Raises:
        FormatError: The chunk is too large, or too small for its records.
    """
    if max_raw_bytes is not None and raw_bytes > max_raw_bytes:
        raise FormatError(
            f"expected at most {max_raw_bytes} bytes in a chunk, it announces {raw_bytes}; raise"
            " max_raw_bytes if the file can be trusted"
        )
    if num_records * LENGTH.size > raw_bytes:
        raise FormatError(f"{num_records} records cannot be in {raw_bytes} bytes of framing")

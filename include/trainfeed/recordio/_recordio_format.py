"""The RecordIO file format. All integers are little-endian uint32.

A file is a sequence of chunks and nothing else, so an empty file is valid and files may be
concatenated::

    file    := chunk*
    chunk   := header payload
    header  := magic checksum codec stored_bytes num_records        (20 bytes)
    payload := codec( framing )                              (stored_bytes bytes)
    framing := ( length data )*                (per record 4 bytes + length bytes)

``checksum`` is the CRC-32 (ISO-HDLC, as in zlib) of the stored payload. It covers neither the
header nor the framing. So a reader also compares every size with a limit before it allocates
memory, and verifies that ``num_records`` records end exactly at the end of the framing.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from struct import Struct
from types import TracebackType
from typing import ClassVar, Final, NamedTuple

from trainfeed.errors import BadMagicError, FormatError, UnsupportedCodecError

__all__ = [
    "HEADER_BYTES",
    "LENGTH",
    "MAX_RAW_BYTES",
    "ChunkInfo",
    "Codec",
    "Header",
    "located",
]

MAGIC: Final = 0x01020304
# MXNet's format of the same name.
_MXNET_MAGIC: Final = 0xCED7230A
LENGTH: Final = Struct("<I")
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
        if isinstance(error, FormatError) and error.offset_bytes is None:
            error.path, error.offset_bytes = self._path, self._offset_bytes
            if self._number is not None:
                error.args = (f"chunk {self._number}: {error.args[0]}",)

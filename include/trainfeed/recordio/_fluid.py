"""Reads the Fluid layout, which has the same name, magic and framing, but other header words.

::

    header := magic num_records checksum codec stored_bytes        (20 bytes)

Codecs are 0 (none) and 1 (snappy); gzip is declared in the original and was never implemented. A
chunk holds 1000 records of any size. Records are bytes that another framework serialised; this
module does not interpret them.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

from trainfeed.errors import BadMagicError, FormatError, TruncatedError, UnsupportedCodecError
from trainfeed.recordio._byte_source import ByteSource, ReadableFile, open_source
from trainfeed.recordio._chunk import ChunkBuffers, ChunkReader, check_left
from trainfeed.recordio._framing import iter_records, record_bounds
from trainfeed.recordio._recordio_format import (
    HEADER_BYTES,
    MAGIC,
    MAX_RAW_BYTES,
    Codec,
    Header,
    located,
)

__all__ = ["FluidScanner"]

_WORDS: Final = Struct("<5I")
_CODECS: Final = {0: Codec.NONE, 1: Codec.SNAPPY}


class FluidScanner:
    """The records of a file in the Fluid layout, as bytes; can be iterated again.

    No current software writes this layout, and no other class here reads it. The first damage ends
    the scan with an error.

    Args:
        file: A path, a descriptor, or a seekable binary file.
        max_raw_bytes: Limit for the bytes of a chunk's framing; a larger chunk is refused. The
            layout itself has no limit.
    """

    def __init__(self, file: ReadableFile, *, max_raw_bytes: int = MAX_RAW_BYTES) -> None:
        self._file = file
        self._max_raw_bytes = max_raw_bytes

    def __iter__(self) -> Iterator[bytes]:
        """Read the file.

        Raises:
            TruncatedError: The file ends inside a chunk.
            BadMagicError: No chunk starts where one should.
            ChecksumError: A payload is damaged.
            UnsupportedCodecError: The layout does not have the codec.
            FormatError: The content of a chunk differs from its header, or the chunk is too large,
                or has the Go layout.
        """
        with open_source(self._file) as source:
            reader = _FluidReader(source, ChunkBuffers(), self._max_raw_bytes)
            end_bytes, offset_bytes, number = source.num_bytes(), 0, 0
            while offset_bytes < end_bytes:
                with located(source.path, offset_bytes, number):
                    info, framing = reader.read(offset_bytes, end_bytes)
                    bounds = record_bounds(framing, info.num_records)
                yield from map(bytes, iter_records(framing, bounds))
                offset_bytes, number = info.end_bytes, number + 1


class _FluidReader(ChunkReader):
    def _read_header(self, offset_bytes: int, end_bytes: int) -> Header:
        data = bytearray(HEADER_BYTES)
        if (got := self._source.read_into(offset_bytes, memoryview(data))) < HEADER_BYTES:
            raise TruncatedError(
                f"expected a chunk header of {HEADER_BYTES} bytes, the file has {got}"
            )
        magic, num_records, crc32, codec, stored_bytes = _WORDS.unpack(data)
        if magic != MAGIC:
            raise BadMagicError(f"expected magic {MAGIC:#010x}, got {magic:#010x}")
        if codec not in _CODECS:
            _refuse_go_layout(self._source, offset_bytes, end_bytes, self._max_raw_bytes)
            raise UnsupportedCodecError(
                f"expected codec 0 or 1 of the Fluid layout, got {codec}: the header is damaged"
            )
        header = Header(crc32, _CODECS[codec], stored_bytes, num_records)
        check_left(header, offset_bytes, end_bytes)
        return header


def _refuse_go_layout(
    source: ByteSource, offset_bytes: int, end_bytes: int, max_raw_bytes: int
) -> None:
    """Raise if a whole chunk of the Go layout is here."""
    try:
        ChunkReader(source, ChunkBuffers(), max_raw_bytes).read(offset_bytes, end_bytes)
    except FormatError:
        return
    raise FormatError(
        "expected the Fluid layout of RecordIO, this is the Go layout; read it with RecordScanner"
    )

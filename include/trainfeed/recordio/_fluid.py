"""Reads the Fluid layout, which has the same name, magic and framing, and other header words.

::

    header := magic num_records checksum codec stored_bytes        (20 bytes)

Its codecs are 0 none and 1 snappy; it declares gzip and never had it. A chunk holds 1000 records
of any size. The records are what another framework serialised; what is in them is not its affair.
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
    """The records of a file in the Fluid layout, raw; can be iterated again.

    Nothing writes this layout any more, and nothing else here reads it. Strict: the first thing
    that is wrong ends the scan with an error.

    Args:
        file: A path, a descriptor, or a seekable binary file.
        max_raw_bytes: Refuse a chunk whose framing is longer. The layout knows no limit.
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
            UnsupportedCodecError: The layout has no such codec.
            FormatError: A chunk does not hold what it promises, is larger than allowed, or is in
                the Go layout.
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
    """Raise where a whole chunk of the Go layout is; do nothing elsewhere."""
    try:
        ChunkReader(source, ChunkBuffers(), max_raw_bytes).read(offset_bytes, end_bytes)
    except FormatError:
        return
    raise FormatError(
        "expected the Fluid layout of RecordIO, this is the Go layout; read it with RecordScanner"
    )

"""Chunks: framing to bytes and back, a whole chunk at a time, trusting nothing on the way back."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from trainfeed.errors import ChecksumError, FormatError, TruncatedError, UnsupportedCodecError
from trainfeed.recordio._byte_source import ByteSource, ReadableFile, open_source
from trainfeed.recordio._foreign import refuse_foreign_layout
from trainfeed.recordio._framing import check_sizes
from trainfeed.recordio._recordio_format import (
    HEADER_BYTES,
    MAX_RAW_BYTES,
    ChunkInfo,
    Codec,
    Header,
    located,
)
from trainfeed.recordio.compression import (
    Payload,
    compress,
    decompress,
    decompress_into,
    raw_bytes_of,
)

__all__ = [
    "ChunkBuffers",
    "ChunkReader",
    "EncodedChunk",
    "ReusedMemory",
    "check_left",
    "decode_payload",
    "encode_chunk",
    "read_chunk",
    "read_header",
]

# No codec makes data larger by more than this share, plus a little for its own header.
_MAX_GROWTH: Final = 4
_MAX_OVERHEAD_BYTES: Final = 1024


class ReusedMemory:
    """Memory that is used again, and grows to the most that was asked for.

    Fresh memory for every chunk costs more than decompressing it, in page faults. Not for two
    threads at once.
    """

    def __init__(self) -> None:
        self._bytes: NDArray[np.uint8] = np.empty(0, np.uint8)

    def of(self, num_bytes: int) -> memoryview:
        """Return memory for bytes; what was asked for before is overwritten."""
        if self._bytes.nbytes < num_bytes:
            self._bytes = np.empty(num_bytes + num_bytes // 8, np.uint8)
        return self._bytes.data[:num_bytes]


class ChunkBuffers:
    """Memory for one chunk, used again for the next one; see ``ReusedMemory``."""

    def __init__(self) -> None:
        self._stored, self._raw = ReusedMemory(), ReusedMemory()

    def stored(self, num_bytes: int) -> memoryview:
        """Return memory for a chunk as stored."""
        return self._stored.of(num_bytes)

    def raw(self, num_bytes: int) -> memoryview:
        """Return memory for a chunk after decompression."""
        return self._raw.of(num_bytes)


class EncodedChunk(NamedTuple):
    """A chunk as stored; ``payload`` may be the framing itself, so write it before reusing that."""

    header: Header
    payload: memoryview


def encode_chunk(
    framing: memoryview, num_records: int, *, codec: Codec, level: int
) -> EncodedChunk:
    """Compress a framing; equal input gives equal bytes."""
    payload = compress(codec, framing, level)
    crc32 = isal_zlib.crc32(payload)
    return EncodedChunk(Header(crc32, codec, len(payload), num_records), payload)


class ChunkReader:
    """Reads chunks of one source into one set of buffers, within one limit.

    Attributes:
        max_stored_bytes: A longer payload is refused before memory is taken for it.
    """

    def __init__(self, source: ByteSource, buffers: ChunkBuffers, max_raw_bytes: int) -> None:
        self._source = source
        self._buffers = buffers
        self._max_raw_bytes = max_raw_bytes
        growth_bytes = max_raw_bytes // _MAX_GROWTH + _MAX_OVERHEAD_BYTES
        self.max_stored_bytes = max_raw_bytes + growth_bytes

    def read(self, offset_bytes: int, end_bytes: int) -> tuple[ChunkInfo, memoryview]:
        """Read the chunk at ``offset_bytes`` of a file of ``end_bytes``."""
        header = self._read_header(offset_bytes, end_bytes)
        payload = self._fetch(offset_bytes + HEADER_BYTES, header.stored_bytes)
        framing = self._decode(header, payload)
        info = ChunkInfo(
            offset_bytes=offset_bytes,
            stored_bytes=header.stored_bytes,
            raw_bytes=len(framing),
            num_records=header.num_records,
            crc32=header.crc32,
            codec=header.codec,
        )
        return info, framing

    def read_known(self, info: ChunkInfo) -> memoryview:
        """Read the chunk that ``info`` describes, in one go."""
        data = self._fetch(info.offset_bytes, HEADER_BYTES + info.stored_bytes)
        _require_header(info, data)
        framing = self._decode(info, data[HEADER_BYTES:])
        if len(framing) != info.raw_bytes:
            raise FormatError(
                f"expected {info.raw_bytes} bytes of framing as in the index, got {len(framing)}"
            )
        return framing

    def _read_header(self, offset_bytes: int, end_bytes: int) -> Header:
        return read_header(self._source, offset_bytes, end_bytes)

    def _fetch(self, offset_bytes: int, num_bytes: int) -> memoryview:
        if num_bytes > self.max_stored_bytes:
            raise FormatError(
                f"expected at most {self.max_stored_bytes} stored bytes in a chunk, got"
                f" {num_bytes}; raise max_raw_bytes if the file can be trusted"
            )
        if (view := self._source.view(offset_bytes, num_bytes)) is not None:
            if len(view) < num_bytes:
                raise TruncatedError(
                    f"expected {num_bytes} bytes of a chunk, the file has {len(view)}"
                )
            return view
        out = self._buffers.stored(num_bytes)
        if (got := self._source.read_into(offset_bytes, out)) < num_bytes:
            raise TruncatedError(f"expected {num_bytes} bytes of a chunk, the file has {got}")
        return out

    def _decode(self, header: Header | ChunkInfo, payload: memoryview) -> memoryview:
        # The checksum first: damaged bytes never reach a decompressor.
        if (crc32 := isal_zlib.crc32(payload)) != header.crc32:
            raise ChecksumError(f"expected CRC-32 {header.crc32:#010x}, got {crc32:#010x}")
        raw_bytes = raw_bytes_of(header.codec, payload)
        check_sizes(header.num_records, raw_bytes, self._max_raw_bytes)
        if header.codec is Codec.NONE:
            return payload
        return decompress(header.codec, payload, raw_bytes, self._buffers.raw)


def read_chunk(
    file: ReadableFile,
    info: ChunkInfo,
    *,
    max_raw_bytes: int = MAX_RAW_BYTES,
    buffers: ChunkBuffers | None = None,
) -> memoryview:
    """Read one chunk that an index describes.

    Args:
        file: A path, a descriptor, or a seekable binary file; threads may share a descriptor.
        info: The chunk. What the file says must agree with it in every number.
        max_raw_bytes: Refuse a chunk whose framing is longer.
        buffers: Memory to use again and again.

    Returns:
        The framing. With ``buffers`` it is valid until they are used again; else it is the
        caller's.

    Raises:
        TruncatedError: The file ends inside the chunk.
        ChecksumError: The payload is damaged.
        FormatError: The file and ``info`` differ, or the chunk is larger than allowed.
    """
    with open_source(file) as source, located(source.path, info.offset_bytes):
        return ChunkReader(source, buffers or ChunkBuffers(), max_raw_bytes).read_known(info)


def decode_payload(
    info: ChunkInfo, header: Payload, payload: memoryview, out: memoryview, *, verify: bool = True
) -> memoryview:
    """Decode a chunk that was read already, for callers who read in ways of their own.

    Args:
        info: The chunk. What was read must agree with it in every number.
        header: Its first 20 bytes.
        payload: What follows them, ``info.stored_bytes``.
        out: Where to decompress to, ``info.raw_bytes``; not touched by a chunk that is stored as
            it is.
        verify: Whether to compare the checksum.

    Returns:
        The framing: ``out``, or ``payload`` where that is the framing.

    Raises:
        ChecksumError: The payload is damaged.
        FormatError: What was read and ``info`` differ.
    """
    _require_header(info, header)
    if verify and (crc32 := isal_zlib.crc32(payload)) != info.crc32:
        raise ChecksumError(f"expected CRC-32 {info.crc32:#010x}, got {crc32:#010x}")
    if (raw_bytes := raw_bytes_of(info.codec, payload)) != info.raw_bytes:
        raise FormatError(
            f"expected {info.raw_bytes} bytes of framing as in the index, got {raw_bytes}"
        )
    if info.codec is Codec.NONE:
        return payload
    decompress_into(info.codec, payload, out)
    return out


def _require_header(info: ChunkInfo, data: Payload) -> None:
    if data[:HEADER_BYTES] != info.header:
        expected, found = Header.parse(info.header), Header.parse(bytes(data[:HEADER_BYTES]))
        raise FormatError(f"expected the chunk of the index, {expected}, found {found}")


def read_header(source: ByteSource, offset_bytes: int, end_bytes: int) -> Header:
    """Read the header at ``offset_bytes`` and compare it with what is left of the file.

    Raises:
        TruncatedError: The file ends inside the chunk.
        BadMagicError: No chunk starts here.
        UnsupportedCodecError: This version has no such codec.
        FormatError: The file is in another layout.
    """
    data = bytearray(HEADER_BYTES)
    if (got := source.read_into(offset_bytes, memoryview(data))) < HEADER_BYTES:
        raise TruncatedError(f"expected a chunk header of {HEADER_BYTES} bytes, the file has {got}")
    try:
        header = Header.parse(data)
    except UnsupportedCodecError:
        refuse_foreign_layout(source, offset_bytes, end_bytes)
        raise
    check_left(header, offset_bytes, end_bytes)
    return header


def check_left(header: Header, offset_bytes: int, end_bytes: int) -> None:
    """Compare a payload's length with what is left of the file.

    Raises:
        TruncatedError: The file ends inside the chunk.
    """
    left_bytes = end_bytes - offset_bytes - HEADER_BYTES
    if header.stored_bytes > left_bytes:
        raise TruncatedError(
            f"expected a chunk payload of {header.stored_bytes} bytes, {left_bytes} are left"
        )

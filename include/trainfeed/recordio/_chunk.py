"""Chunks: framing to bytes and back, a whole chunk at a time; decoding verifies every number."""

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

# A codec may make incompressible data larger: by at most one part in _MAX_GROWTH, plus a fixed
# overhead for its headers.
_MAX_GROWTH: Final = 4
_MAX_OVERHEAD_BYTES: Final = 1024


class ReusedMemory:
    """Memory that is used again, and grows to the largest request.

    The page faults of new memory for every chunk would cost more than decompression. Threads must
    not share the object.
    """

    def __init__(self) -> None:
        self._bytes: NDArray[np.uint8] = np.empty(0, np.uint8)

    def of(self, num_bytes: int) -> memoryview:
        """Return memory for ``num_bytes``; the bytes of the call before are overwritten."""
        if self._bytes.nbytes < num_bytes:
            # An eighth more, so that slightly growing requests do not allocate again each time.
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
    """A chunk as stored.

    ``payload`` may be the framing itself: hold it until it is written.
    """

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
    """Reads chunks of one source into one set of buffers, up to a limit of size.

    Attributes:
        max_stored_bytes: Limit for a payload; a longer one is refused before memory is allocated.
    """

    def __init__(self, source: ByteSource, buffers: ChunkBuffers, max_raw_bytes: int) -> None:
        self._source = source
        self._buffers = buffers
        self._max_raw_bytes = max_raw_bytes
        # The limit applies to the framing; a stored payload may be a little larger.
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
        """Read the chunk that ``info`` describes with one read."""
        # Header and payload lie side by side, and the index knows both sizes: one request instead
        # of two.
        data = self._fetch(info.offset_bytes, HEADER_BYTES + info.stored_bytes)
        # An index may be older than the file: the header must be the one that was indexed.
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
        # The checksum is compared first: damaged bytes never reach a decompressor.
        if (crc32 := isal_zlib.crc32(payload)) != header.crc32:
            raise ChecksumError(f"expected CRC-32 {header.crc32:#010x}, got {crc32:#010x}")
        # The announced size is checked against the limit before memory of this size is allocated.
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
        info: The chunk; every number in the file must agree with it.
        max_raw_bytes: Limit for the bytes of a chunk's framing; a larger chunk is refused.
        buffers: Memory for the chunk, which later calls use again.

    Returns:
        The framing. With ``buffers`` it is valid until these are used again; otherwise it has
        memory of its own.

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
    """Decode a chunk whose bytes the caller has read.

    Args:
        info: The chunk; every number in the bytes must agree with it.
        header: The first 20 bytes of the chunk.
        payload: The bytes after the header, ``info.stored_bytes``.
        out: Memory for the framing, ``info.raw_bytes``; not used for an uncompressed chunk.
        verify: Whether to compare the checksum.

    Returns:
        The framing: ``out``, or ``payload`` of an uncompressed chunk.

    Raises:
        ChecksumError: The payload is damaged.
        FormatError: The bytes and ``info`` differ.
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
    # Bytes are compared first; the header is parsed only for the message.
    if data[:HEADER_BYTES] != info.header:
        expected, found = Header.parse(info.header), Header.parse(bytes(data[:HEADER_BYTES]))
        raise FormatError(f"expected the chunk of the index, {expected}, found {found}")


def read_header(source: ByteSource, offset_bytes: int, end_bytes: int) -> Header:
    """Read the header at ``offset_bytes`` and compare it with the size of the rest of the file.

    Raises:
        TruncatedError: The file ends inside the chunk.
        BadMagicError: No chunk starts here.
        UnsupportedCodecError: This version does not know the codec.
        FormatError: The file has another layout.
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
    """Compare the length of a payload with the size of the rest of the file.

    Raises:
        TruncatedError: The file ends inside the chunk.
    """
    left_bytes = end_bytes - offset_bytes - HEADER_BYTES
    if header.stored_bytes > left_bytes:
        raise TruncatedError(
            f"expected a chunk payload of {header.stored_bytes} bytes, {left_bytes} are left"
        )

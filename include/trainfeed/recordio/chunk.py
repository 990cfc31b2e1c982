"""One chunk: from the bytes of a file to its payload, with every number checked."""

from __future__ import annotations

import io
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct
from types import TracebackType
from typing import BinaryIO, Final, NamedTuple, Protocol, Self, TypeAlias

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from trainfeed.errors import ChecksumError, FormatError, TruncatedError, UnsupportedCodecError
from trainfeed.files import FilePath, os_errors, path_of, plain_fd, plain_size
from trainfeed.recordio.compression import (
    Payload,
    compress,
    decompress,
    decompress_into,
    raw_bytes_of,
)
from trainfeed.recordio.format import (
    HEADER_BYTES,
    MAX_RAW_BYTES,
    ChunkInfo,
    Codec,
    Header,
    check_sizes,
    located,
)

# --- Sources of bytes: a path, a descriptor, an open binary file, or a mapped file

# Reads of a file object return new bytes; this limits their size.
_READ_BYTES: Final = 1 << 20


class ByteSource(Protocol):
    """Bytes that can be read at any position.

    Attributes:
        path: Name for messages; None when unknown.
    """

    path: str | None

    def num_bytes(self) -> int:
        """Return the present size in bytes."""

    def read_into(self, offset_bytes: int, out: memoryview) -> int:
        """Fill ``out`` from ``offset_bytes`` on; return the bytes read, fewer only at the end."""

    def view(self, offset_bytes: int, num_bytes: int) -> memoryview | None:
        """Return bytes without a copy, fewer only at the end; None where that is not possible."""


@contextmanager
def open_source(file: ReadableFile) -> Iterator[ByteSource]:
    """Make a source of a path, a descriptor, a seekable binary file, or a mapped file.

    A path is opened here and closed at the end; anything else stays open. Reads do not use or move
    the position of a descriptor, so threads may share it. They do move that of a binary file.

    Raises:
        NotFoundError: No file is at the path.
        FormatError: The path is not a plain file.
        StorageError: The file cannot be opened.
    """
    if isinstance(file, MappedFile):
        yield file
    elif isinstance(file, int):
        yield _Descriptor(file)
    elif isinstance(file, str | os.PathLike):
        path = os.fspath(file)
        with _opened(path) as fd:
            yield _Descriptor(fd, path)
    else:
        yield _Stream(file)


@contextmanager
def _opened(path: str) -> Iterator[int]:
    with os_errors(path):
        fd = plain_fd(path, follow=True)
    try:
        yield fd
    finally:
        os.close(fd)


class _Descriptor:
    def __init__(self, fd: int, path: str | None = None) -> None:
        self.path = path_of(fd) if path is None else path
        self._fd = fd

    def num_bytes(self) -> int:
        with os_errors(self.path):
            return plain_size(self._fd, self.path)

    def read_into(self, offset_bytes: int, out: memoryview) -> int:
        num_bytes = 0
        with os_errors(self.path):
            while num_bytes < len(out):
                # preadv has no file position, so threads may share the descriptor.
                got = os.preadv(self._fd, [out[num_bytes:]], offset_bytes + num_bytes)
                if not got:
                    break
                num_bytes += got
        return num_bytes

    def view(self, _offset_bytes: int, _num_bytes: int) -> None:
        return None


class _Stream:
    def __init__(self, file: BinaryIO) -> None:
        self.path = path_of(file)
        self._file = file

    def num_bytes(self) -> int:
        with os_errors(self.path):
            return self._file.seek(0, io.SEEK_END)

    def read_into(self, offset_bytes: int, out: memoryview) -> int:
        num_bytes = 0
        with os_errors(self.path):
            self._file.seek(offset_bytes)
            # One read of a file on a network may return less than was requested.
            while num_bytes < len(out):
                data = self._file.read(min(len(out) - num_bytes, _READ_BYTES))
                if not data:
                    break
                out[num_bytes : num_bytes + len(data)] = data
                num_bytes += len(data)
        return num_bytes

    def view(self, _offset_bytes: int, _num_bytes: int) -> None:
        return None


class MappedFile:
    """A file mapped into memory: views of it are no copies, and stay valid.

    Use it for files on a local disk that do not change. If a mapped file is truncated, or its disk
    fails, the kernel kills the process that reads the lost bytes (SIGBUS); over a network every
    page is a request of its own. Descriptors and paths have neither drawback.

    The map takes no memory besides the page cache. Threads may share it. The file is unmapped when
    the object is closed and its last view is gone.

    Args:
        path: The file.

    Attributes:
        path: As above.
        name: As above; the attribute that file objects have.

    Raises:
        NotFoundError: No file is at the path.
        FormatError: The path is not a plain file.
        StorageError: The file cannot be opened.
    """

    def __init__(self, path: FilePath) -> None:
        self.path: str | None = os.fspath(path)
        self.name = self.path
        # An empty file cannot be mapped.
        self._data: memoryview | None = memoryview(b"")
        with _opened(self.path) as fd:
            if num_bytes := _Descriptor(fd, self.path).num_bytes():
                with os_errors(self.path):
                    self._data = memoryview(mmap.mmap(fd, num_bytes, prot=mmap.PROT_READ))

    def num_bytes(self) -> int:
        """Return the size of the file when it was mapped, in bytes."""
        return len(self._mapped())

    def read_into(self, offset_bytes: int, out: memoryview) -> int:
        """Fill ``out`` from ``offset_bytes`` on; return the bytes read, fewer only at the end."""
        data = self.view(offset_bytes, len(out))
        out[: len(data)] = data
        return len(data)

    def view(self, offset_bytes: int, num_bytes: int) -> memoryview:
        """Return bytes without a copy, fewer only at the end; the view stays valid."""
        return self._mapped()[offset_bytes : offset_bytes + num_bytes]

    def close(self) -> None:
        """Release the file; safe to call twice. Views stay valid."""
        # Only this reference is dropped: the mapping ends with the last view.
        self._data = None

    def _mapped(self) -> memoryview:
        if self._data is None:
            raise ValueError("the file is closed")
        return self._data

    def __enter__(self) -> Self:
        """Return the file itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release the file."""
        self.close()


ReadableFile: TypeAlias = FilePath | int | BinaryIO | MappedFile


# --- Recognises two other layouts of the same name and magic, so that errors name them

_WORDS: Final = Struct("<5I")
# Fluid chunks hold 1000 records, ElasticDL chunks 1024 bytes; larger ones are not tested.
_MAX_FLUID_BYTES: Final = 64 << 20
_MAX_ELASTICDL_BYTES: Final = 64 << 10
_REMEDIES: Final = {
    "Fluid": "read its records with FluidScanner",
    "ElasticDL": "convert the file with the software that wrote it",
}


def refuse_foreign_layout(source: ByteSource, offset_bytes: int, end_bytes: int) -> None:
    """Raise if a chunk of another layout is here.

    Raises:
        FormatError: A chunk of another layout is here; the message names the layout and the remedy.
    """
    if layout := foreign_layout(source, offset_bytes, end_bytes):
        raise FormatError(
            f"expected the Go layout of RecordIO, this is the {layout} layout, not Go layout;"
            f" {_REMEDIES[layout]}"
        )


def foreign_layout(source: ByteSource, offset_bytes: int, end_bytes: int) -> str | None:
    """Return the name of the layout whose checksum matches the chunk here; None if none does."""
    words = bytearray(_WORDS.size)
    source.read_into(offset_bytes, memoryview(words))
    _, _, checksum, _, stored_bytes = _WORDS.unpack(words)
    left_bytes = end_bytes - offset_bytes - _WORDS.size
    if not 0 < stored_bytes <= min(left_bytes, _MAX_FLUID_BYTES):
        return None
    payload = bytearray(stored_bytes)
    source.read_into(offset_bytes + _WORDS.size, memoryview(payload))
    if isal_zlib.crc32(payload) == checksum:
        return "Fluid"
    from crc32c import crc32c

    if stored_bytes <= _MAX_ELASTICDL_BYTES and crc32c(payload) == checksum:
        return "ElasticDL"
    return None


# --- Chunks: framing to bytes and back, a whole chunk at a time; decoding verifies every number

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

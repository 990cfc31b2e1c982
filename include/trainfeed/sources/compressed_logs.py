"""Streams of compressed log files: gzip, zstd, bzip2, and lz4 and snappy in two forms each.

Programs write lz4 and snappy as frames; Hadoop writes blocks without a mark and without checksums:
the size of a block, and its pieces, each behind its compressed size, all as big-endian numbers.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final, Protocol

import cramjam
import pyarrow as pa
from crc32c import crc32c

_BYTES: Final = 4
# Pieces of Hadoop are as large as its buffers, 256 KiB unless it was told otherwise.
_MOST_PIECE_BYTES: Final = 64 << 20
_LZ4_FRAME: Final = b"\x04\x22\x4d\x18"
_SNAPPY_FRAME: Final = b"\xff\x06\x00\x00sNaPpY"
# A frame of snappy: its kind, and three bytes with the size of what follows.
_HEADER_BYTES: Final = 4
_COMPRESSED, _PLAIN, _FIRST_SKIPPED, _BEGIN = 0x00, 0x01, 0x80, 0xFF
_MOST_FRAME_BYTES: Final = 1 << 16


class Stream(Protocol):
    """The content of a compressed file."""

    def read(self, size: int, /) -> bytes:
        """Return up to ``size`` bytes; nothing at the end."""

    def close(self) -> None:
        """Release what the stream holds."""


def decompressed(file: BinaryIO, compression: str) -> Stream:
    """Return what a file decompresses to: that of all members, frames or blocks, in their order.

    Zeros behind a member of gzip are passed over, as gzip does: tapes and blocks are filled up with
    them. Arrow takes them for the start of a further member.

    Args:
        file: The file, at its start; it can be sought in.
        compression: gzip, zstd, bz2, lz4 or snappy.

    Raises:
        OSError, ValueError, EOFError, pyarrow.ArrowException, zlib.error: The file is damaged or
            ends early, here or in a later read; an OSError with errno is of the file system.
    """
    if compression == "gzip":
        return gzip.GzipFile(fileobj=file, mode="rb")
    head = file.read(len(_SNAPPY_FRAME))
    file.seek(0)
    if compression == "snappy":
        parts = _snappy_frames if head == _SNAPPY_FRAME else _snappy_blocks
        return io.BufferedReader(_Parts(parts(file)))
    if compression == "lz4" and not head.startswith(_LZ4_FRAME):
        return io.BufferedReader(_Parts(_lz4_blocks(file)))
    stream: Stream = pa.CompressedInputStream(pa.PythonFile(file, mode="r"), compression)
    return stream


class _Parts(io.RawIOBase):
    """Parts of the content, one after another, as a raw file.

    Args:
        parts: The parts; none is empty.
    """

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self._left = memoryview(b"")

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, into: memoryview, /) -> int:  # type: ignore[override]
        """Fill ``into`` as far as the present part goes; return how many bytes."""
        if not self._left:
            self._left = memoryview(next(self._parts, b""))
        count = min(len(into), len(self._left))
        into[:count] = self._left[:count]
        self._left = self._left[count:]
        return count


def _snappy_blocks(file: BinaryIO) -> Iterator[bytes]:
    return _blocks(file, _snappy)


def _lz4_blocks(file: BinaryIO) -> Iterator[bytes]:
    def piece(data: bytes, room_bytes: int) -> bytes:
        content = bytearray(min(room_bytes, _MOST_PIECE_BYTES))
        try:
            num_bytes = cramjam.lz4.decompress_block_into(data, content)
        except cramjam.DecompressionError as error:
            raise ValueError(str(error)) from error
        return bytes(content[:num_bytes])

    return _blocks(file, piece)


def _blocks(file: BinaryIO, piece: Callable[[bytes, int], bytes]) -> Iterator[bytes]:
    """Yield the pieces of Hadoop's blocks.

    Args:
        file: The file.
        piece: Decompresses a piece that has at most so many bytes.
    """
    while head := file.read(_BYTES):
        left_bytes = _number(head)
        while left_bytes:
            num_bytes = _number(file.read(_BYTES))
            if num_bytes > _MOST_PIECE_BYTES:
                raise ValueError(f"expected pieces of at most {_MOST_PIECE_BYTES} bytes")
            part = piece(_exactly(file, num_bytes), left_bytes)
            if not 0 < len(part) <= left_bytes:
                raise ValueError("a piece has another size than its block")
            left_bytes -= len(part)
            yield part


def _snappy_frames(file: BinaryIO) -> Iterator[bytes]:
    """Yield the content of frames of snappy; each has a checksum, which is compared."""
    while head := file.read(_HEADER_BYTES):
        if len(head) < _HEADER_BYTES:
            raise EOFError("the file ends in a frame")
        kind = head[0]
        data = _exactly(file, int.from_bytes(head[1:], "little"))
        if kind in {_COMPRESSED, _PLAIN}:
            if part := _frame_content(kind, data):
                yield part
        elif kind == _BEGIN:
            if head + data != _SNAPPY_FRAME:
                raise ValueError("a stream of snappy begins with another mark")
        elif kind < _FIRST_SKIPPED:
            raise ValueError(f"a frame of snappy has the kind {kind}")


def _frame_content(kind: int, data: bytes) -> bytes:
    checksum, content = int.from_bytes(data[:_BYTES], "little"), data[_BYTES:]
    if kind == _COMPRESSED:
        content = _snappy(content, _MOST_FRAME_BYTES)
    found = crc32c(content)
    # Frames have the sum rotated by 15 bits, and a constant added, as TFRecord has it, too.
    if ((found >> 15 | found << 17) + 0xA282EAD8) & 0xFFFFFFFF != checksum:
        raise ValueError("a frame of snappy has another checksum")
    return content


def _snappy(data: bytes, most_bytes: int) -> bytes:
    try:
        # Looked at before memory depends on it.
        if cramjam.snappy.decompress_raw_len(data) > most_bytes:
            raise ValueError(f"expected at most {most_bytes} bytes of snappy, got more")
        return bytes(cramjam.snappy.decompress_raw(data))
    except cramjam.DecompressionError as error:
        raise ValueError(str(error)) from error


def _number(data: bytes) -> int:
    if len(data) < _BYTES:
        raise EOFError("the file ends in a block")
    return int.from_bytes(data, "big")


def _exactly(file: BinaryIO, num_bytes: int) -> bytes:
    data = file.read(num_bytes)
    if len(data) < num_bytes:
        raise EOFError("the file ends early")
    return data

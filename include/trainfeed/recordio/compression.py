"""The codecs of RecordIO, and the sizes that compressed data announce."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple, Protocol, TypeAlias

import cramjam
from isal import isal_zlib

from trainfeed.errors import ConfigError, FormatError
from trainfeed.recordio.format import Codec

# --- The size that a framed snappy stream announces, read without decompressing it

_IDENTIFIER: Final = b"\xff\x06\x00\x00sNaPpY"
_COMPRESSED: Final = 0x00
_STORED: Final = 0x01
_SKIPPABLE: Final = 0x80
_VARINT_MAX_BYTES: Final = 5
_HEAD_BYTES: Final = 8 + _VARINT_MAX_BYTES
# Heads of smaller frames than this are read together, _READ_BYTES at a time.
_SMALL_FRAME_BYTES: Final = 4 << 10
_READ_BYTES: Final = 64 << 10
# Writers make no empty frames. Each would take four bytes and a step of the loop, so a hostile
# payload could hold millions of them.
_MAX_EMPTY_FRAMES: Final = 64


class _Payload(Protocol):
    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> bytes | memoryview: ...


def snappy_raw_bytes(payload: _Payload) -> int:
    """Return the sum of the sizes that the frames of a stream announce.

    Raises:
        FormatError: The payload is not such a stream, or has too many frames without data.
    """
    if bytes(payload[: len(_IDENTIFIER)]) != _IDENTIFIER:
        raise FormatError("expected a snappy stream, its identifier is missing")
    total = num_empty = 0
    for head, frame_bytes in _frames(payload):
        raw_bytes = 0
        if head[0] < _SKIPPABLE:
            raw_bytes = _block_bytes(head[: 4 + frame_bytes], frame_bytes)
        total += raw_bytes
        # Counts empty frames beyond those with data; a frame with data makes up for an empty one.
        num_empty += -1 if raw_bytes else 1
        if num_empty > _MAX_EMPTY_FRAMES:
            raise FormatError(
                f"expected at most {_MAX_EMPTY_FRAMES} snappy frames without data beyond as many as"
                " there are with data"
            )
    return total


def _frames(payload: _Payload) -> Iterator[tuple[bytes, int]]:
    """Yield for every frame after the identifier its first bytes and its length without head.

    The head of a frame is its type (1 byte) and length (3 bytes).
    """
    num_bytes, position, frame_bytes = len(payload), len(_IDENTIFIER), _SMALL_FRAME_BYTES
    window, start = b"", position
    while position < num_bytes:
        if position + _HEAD_BYTES > start + len(window):
            # The payload may be in a file. Small frames: one read for many of them. Large frames:
            # one small read per head, which skips the data between.
            size = _HEAD_BYTES if frame_bytes >= _SMALL_FRAME_BYTES else _READ_BYTES
            window, start = bytes(payload[position : position + size]), position
        head = window[position - start : position - start + _HEAD_BYTES]
        frame_bytes = int.from_bytes(head[1:4], "little")
        if len(head) < 4 or position + 4 + frame_bytes > num_bytes:
            raise FormatError(f"snappy frame at byte {position} of the payload runs past its end")
        yield head, frame_bytes
        position += 4 + frame_bytes


def _block_bytes(head: bytes, frame_bytes: int) -> int:
    """Return the raw size of a frame with data, which starts with 8 bytes of head and checksum."""
    if head[0] == _COMPRESSED:
        return _varint(head[8:])
    if head[0] == _STORED and frame_bytes >= 4:
        return frame_bytes - 4
    raise FormatError(f"snappy frame of unknown type {head[0]:#04x}, or without checksum")


def _varint(data: bytes) -> int:
    value = 0
    for index, byte in enumerate(data):
        # Seven bits per byte, lowest first; the highest bit is set in all bytes but the last.
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value
    raise FormatError("snappy block announces no size")


# --- The sizes that a zstd frame states, read without decompressing it

_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_MAX_HEADER_BYTES: Final = 18
_CONTENT_FIELD_BYTES: Final = (0, 2, 4, 8)
_RLE_BLOCK: Final = 1
_RESERVED_BLOCK: Final = 3


class _Bytes(Protocol):
    def __getitem__(self, part: slice, /) -> bytes | memoryview: ...


class _FrameHeader(NamedTuple):
    num_bytes: int
    content_bytes: int
    has_checksum: bool


def zstd_content_bytes(data: _Bytes) -> int:
    """Return the content size that a frame states.

    Raises:
        FormatError: ``data`` is not a frame, states no size, or needs a dictionary.
    """
    return _parse_header(data).content_bytes


def zstd_frame_bytes(data: memoryview) -> int:
    """Return the length of the frame at the start of ``data``.

    Raises:
        FormatError: ``data`` is not a frame, or ends inside it.
    """
    header = _parse_header(data)
    position, last = header.num_bytes, False
    while not last:
        word = int.from_bytes(data[position : position + 3], "little")
        # An RLE block stores one byte, whatever its size.
        last, kind, size = bool(word & 1), word >> 1 & 3, word >> 3
        if kind == _RESERVED_BLOCK:
            raise FormatError("zstd frame holds a block of a reserved type")
        position += 3 + (1 if kind == _RLE_BLOCK else size)
        if position > len(data):
            raise FormatError("zstd frame runs past the payload")
    return position + (4 if header.has_checksum else 0)


def _parse_header(data: _Bytes) -> _FrameHeader:
    head = bytes(data[:_MAX_HEADER_BYTES])
    if len(head) < 6 or not head.startswith(_MAGIC):
        raise FormatError("expected a zstd frame, its magic is missing")
    descriptor = head[4]
    single = bool(descriptor & 0x20)
    # Bits 0 and 1: dictionary, bit 3: reserved (the unused bit 4 may be set).
    if descriptor & 0x0B:
        raise FormatError("expected a zstd frame without dictionary and reserved bits")
    # Content flag 0 means one byte if the frame is a single segment, otherwise no size.
    field_bytes = _CONTENT_FIELD_BYTES[descriptor >> 6] or int(single)
    if not field_bytes:
        raise FormatError("expected a zstd frame that states its content size")
    # Behind magic and descriptor comes a window byte, unless the frame is a single segment.
    start = 5 if single else 6
    field = head[start : start + field_bytes]
    if len(field) < field_bytes:
        raise FormatError("zstd frame ends inside its header")
    # The two-byte form starts at 256, because the one-byte form covers smaller sizes.
    content_bytes = int.from_bytes(field, "little") + (256 if field_bytes == 2 else 0)
    return _FrameHeader(start + field_bytes, content_bytes, bool(descriptor & 0x04))


# --- The table of codecs: for each one how to compress, read the announced size, and decompress

_GZIP_WINDOW_BITS: Final = 31
_GZIP_OVERHEAD_BYTES: Final = 18
_U32: Final = Struct("<I")
# The type stub of the library declares an instance; it is a class.
_INFLATE_ERROR: Final[type[Exception]] = isal_zlib.error  # type: ignore[assignment]

_Buffer: TypeAlias = bytes | bytearray | memoryview


class Payload(Protocol):
    """A payload of known length that may still be in a file; slices of it are read on demand."""

    def __len__(self) -> int:
        """Return the stored size in bytes."""

    def __getitem__(self, part: slice, /) -> bytes | memoryview:
        """Return a slice, shorter where the payload ends."""


@dataclass(frozen=True)
class _Coder:
    """Functions and limits of one codec.

    Attributes:
        compress: Function from framing and level to payload; equal input gives equal output.
        raw_bytes: Function from payload to the size that it announces.
        decompress_into: Fills memory of the announced size; returns the number of bytes filled.
        max_ratio: Largest possible ratio of framing size to payload size.
        decompress: Function from payload and announced size to new memory of that size, for codecs
            where this is faster; None for the others.
        levels: Levels that the user may choose.
        default_level: Level when the user chooses none.
    """

    compress: Callable[[_Buffer, int], _Buffer]
    raw_bytes: Callable[[Payload], int]
    decompress_into: Callable[[memoryview, memoryview], int]
    max_ratio: int
    decompress: Callable[[memoryview, int], memoryview] | None = None
    levels: range = range(0)
    default_level: int = 0


def resolve_level(codec: Codec, level: int | None) -> int:
    """Return ``level``, or the codec's default for None.

    Raises:
        ConfigError: The codec has no such level.
    """
    coder = _CODERS[codec]
    if level is None:
        return coder.default_level
    if not coder.levels:
        raise ConfigError(f"codec {codec.name.lower()} has no levels, got {level}; leave it out")
    if level not in coder.levels:
        raise ConfigError(
            f"expected a level of {codec.name.lower()} from {coder.levels[0]} to"
            f" {coder.levels[-1]}, got {level}"
        )
    return level


def compress(codec: Codec, framing: memoryview, level: int) -> memoryview:
    """Return the payload of a framing; for NONE it is the framing itself, not a copy."""
    return memoryview(_CODERS[codec].compress(framing, level))


def raw_bytes_of(codec: Codec, payload: Payload) -> int:
    """Return the size after decompression that a payload announces, without decompressing.

    Raises:
        FormatError: The payload announces no size, or one that is impossible for its length.
    """
    coder = _CODERS[codec]
    num_bytes = coder.raw_bytes(payload)
    if num_bytes > coder.max_ratio * len(payload):
        raise FormatError(
            f"expected at most {coder.max_ratio} times the {len(payload)} stored bytes from"
            f" {codec.name.lower()}, the payload announces {num_bytes}"
        )
    return num_bytes


def decompress(
    codec: Codec, payload: memoryview, num_bytes: int, memory: Callable[[int], memoryview]
) -> memoryview:
    """Decompress a payload to exactly the announced size.

    Args:
        codec: The codec.
        payload: The stored payload.
        num_bytes: The announced size.
        memory: Function that returns memory of a given size; not used by codecs with
            ``decompress``.

    Raises:
        FormatError: The payload is damaged, or yields another number of bytes.
    """
    if (decompress := _CODERS[codec].decompress) is not None:
        return decompress(payload, num_bytes)
    out = memory(num_bytes)
    decompress_into(codec, payload, out)
    return out


def decompress_into(codec: Codec, payload: memoryview, out: memoryview) -> None:
    """Decompress a payload into ``out``, which has exactly the announced size.

    Raises:
        FormatError: The payload is damaged, or yields another number of bytes.
    """
    try:
        num_bytes = _CODERS[codec].decompress_into(payload, out)
    except (cramjam.DecompressionError, _INFLATE_ERROR) as error:
        raise FormatError(f"{codec.name.lower()} payload does not decompress: {error}") from error
    if num_bytes != len(out):
        raise FormatError(
            f"{codec.name.lower()} payload announces {len(out)} bytes and yields {num_bytes}"
        )


def _store(framing: _Buffer, _level: int) -> _Buffer:
    return framing


def _copy(payload: memoryview, out: memoryview) -> int:
    out[:] = payload
    return len(payload)


def _gzip_compress(framing: _Buffer, level: int) -> bytes:
    # zlib, not isal: the output of isal depends on the instruction set of the processor, and equal
    # records must give equal bytes on every machine. The header has no time stamp.
    return zlib.compress(framing, level, _GZIP_WINDOW_BITS)


def _gzip_raw_bytes(payload: Payload) -> int:
    if len(payload) < _GZIP_OVERHEAD_BYTES:
        raise FormatError(f"expected a gzip member, got {len(payload)} bytes")
    (num_bytes,) = _U32.unpack(payload[len(payload) - 4 :])
    return int(num_bytes)


def _gzip_decompress_into(payload: memoryview, out: memoryview) -> int:
    inflater = isal_zlib.decompressobj(_GZIP_WINDOW_BITS)
    # One byte more than announced, so that a longer member is noticed. (A limit of 0 would mean no
    # limit.)
    data = inflater.decompress(payload, len(out) + 1)
    if len(data) > len(out) or not inflater.eof or inflater.unused_data:
        raise FormatError("expected one complete gzip member of the announced size")
    out[: len(data)] = data
    return len(data)


def _lz4_compress(framing: _Buffer, _level: int) -> _Buffer:
    return memoryview(cramjam.lz4.compress_block(framing, store_size=True))


def _lz4_raw_bytes(payload: Payload) -> int:
    if len(payload) < _U32.size:
        raise FormatError("expected the raw length before an lz4 block, the payload is too short")
    (num_bytes,) = _U32.unpack(payload[: _U32.size])
    return int(num_bytes)


def _snappy_compress(framing: _Buffer, _level: int) -> _Buffer:
    return memoryview(cramjam.snappy.compress(framing))


def _zstd_compress(framing: _Buffer, level: int) -> _Buffer:
    return memoryview(cramjam.zstd.compress(framing, level=level))


def _zstd_decompress(payload: memoryview, num_bytes: int) -> memoryview:
    """Decompress in one step: the library's call into given memory streams, and is 10 % slower."""
    _require_one_frame(payload)
    import pyarrow as pa

    try:
        return memoryview(pa.decompress(payload, num_bytes, "zstd")).cast("B")
    except (OSError, pa.ArrowException) as error:
        raise FormatError(f"zstd payload does not decompress: {error}") from error


def _require_one_frame(payload: memoryview) -> None:
    # Without this check the library would decompress a second frame, or skip one, without an error.
    if (num_bytes := zstd_frame_bytes(payload)) != len(payload):
        raise FormatError(f"{len(payload) - num_bytes} bytes follow the zstd frame")


def _zstd_decompress_into(payload: memoryview, out: memoryview) -> int:
    _require_one_frame(payload)
    return cramjam.zstd.decompress_into(payload, out)


# The ratios follow from the formats: snappy copies 64 bytes with 3; the longest match of deflate,
# 258 bytes, takes 2 bits; each byte of an lz4 length adds 255 bytes; a zstd block of 4 bytes
# repeats one byte 131,072 times.
_CODERS: Final = {
    Codec.NONE: _Coder(_store, len, _copy, max_ratio=1),
    Codec.SNAPPY: _Coder(
        _snappy_compress, snappy_raw_bytes, cramjam.snappy.decompress_into, max_ratio=22
    ),
    Codec.GZIP: _Coder(
        _gzip_compress,
        _gzip_raw_bytes,
        _gzip_decompress_into,
        max_ratio=1032,
        levels=range(1, 10),
        default_level=6,
    ),
    Codec.LZ4: _Coder(
        _lz4_compress, _lz4_raw_bytes, cramjam.lz4.decompress_block_into, max_ratio=255
    ),
    Codec.ZSTD: _Coder(
        _zstd_compress,
        zstd_content_bytes,
        _zstd_decompress_into,
        max_ratio=32768,
        decompress=_zstd_decompress,
        levels=range(1, 23),
        default_level=1,
    ),
}

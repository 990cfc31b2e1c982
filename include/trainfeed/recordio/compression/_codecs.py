"""The table of codecs: for each one how to compress, read the announced size, and decompress.

A decoder does not trust its input: the size that a payload announces is read first, without
decompressing, and checked; the output goes into memory of exactly that size.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Final, Protocol, TypeAlias

import cramjam
from isal import isal_zlib

from trainfeed.errors import ConfigError, FormatError
from trainfeed.recordio._recordio_format import Codec
from trainfeed.recordio.compression._snappy import snappy_raw_bytes
from trainfeed.recordio.compression._zstd import zstd_content_bytes, zstd_frame_bytes

__all__ = [
    "Payload",
    "compress",
    "decompress",
    "decompress_into",
    "raw_bytes_of",
    "resolve_level",
]

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

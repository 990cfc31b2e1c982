"""The sizes that a zstd frame states, read without decompressing it.

::

    frame      := magic descriptor window? dictionary? content_bytes block* checksum?
    descriptor := content_flag:2 single:1 unused:1 reserved:1 checksum:1 dictionary:2      (1 byte)
    block      := size:21 type:2 last:1                (3 bytes), then size bytes, 1 for type 1
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from trainfeed.errors import FormatError

__all__ = ["zstd_content_bytes", "zstd_frame_bytes"]

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

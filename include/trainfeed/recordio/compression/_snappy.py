"""What a framed snappy stream says about itself, read without decompressing it.

::

    stream  := identifier frame*
    frame   := type u8, num_bytes u24, data            (type 0xff is the identifier again)
    data    := crc32c u32, block                       (type 0x00; a block starts with its raw size)
             | crc32c u32, raw bytes                   (type 0x01)
             | anything                                (types from 0x80 on: to be skipped)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from trainfeed.errors import FormatError

__all__ = ["snappy_raw_bytes"]

_IDENTIFIER: Final = b"\xff\x06\x00\x00sNaPpY"
_COMPRESSED: Final = 0x00
_STORED: Final = 0x01
_SKIPPABLE: Final = 0x80
_VARINT_MAX_BYTES: Final = 5
_HEAD_BYTES: Final = 8 + _VARINT_MAX_BYTES
# Frames of less than this are read many at once.
_SMALL_FRAME_BYTES: Final = 4 << 10
_READ_BYTES: Final = 64 << 10
# No writer makes even one: each takes a step and four bytes, so one payload could hold millions.
_MAX_EMPTY_FRAMES: Final = 64


class _Payload(Protocol):
    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> bytes | memoryview: ...


def snappy_raw_bytes(payload: _Payload) -> int:
    """Add up what the frames of a stream announce.

    Raises:
        FormatError: It is no such stream, or consists of frames without data.
    """
    if bytes(payload[: len(_IDENTIFIER)]) != _IDENTIFIER:
        raise FormatError("expected a snappy stream, its identifier is missing")
    total = num_empty = 0
    for head, frame_bytes in _frames(payload):
        raw_bytes = 0
        if head[0] < _SKIPPABLE:
            raw_bytes = _block_bytes(head[: 4 + frame_bytes], frame_bytes)
        total += raw_bytes
        num_empty += -1 if raw_bytes else 1
        if num_empty > _MAX_EMPTY_FRAMES:
            raise FormatError(
                f"expected at most {_MAX_EMPTY_FRAMES} snappy frames without data beyond as many as"
                " there are with data"
            )
    return total


def _frames(payload: _Payload) -> Iterator[tuple[bytes, int]]:
    """Yield the first bytes of every frame after the first, and how many follow its first four."""
    num_bytes, position, frame_bytes = len(payload), len(_IDENTIFIER), _SMALL_FRAME_BYTES
    window, start = b"", position
    while position < num_bytes:
        if position + _HEAD_BYTES > start + len(window):
            # The payload may lie in a file: no read per frame where they are small, and nothing of
            # what is between them where they are not.
            size = _HEAD_BYTES if frame_bytes >= _SMALL_FRAME_BYTES else _READ_BYTES
            window, start = bytes(payload[position : position + size]), position
        head = window[position - start : position - start + _HEAD_BYTES]
        frame_bytes = int.from_bytes(head[1:4], "little")
        if len(head) < 4 or position + 4 + frame_bytes > num_bytes:
            raise FormatError(f"snappy frame at byte {position} of the payload runs past its end")
        yield head, frame_bytes
        position += 4 + frame_bytes


def _block_bytes(head: bytes, frame_bytes: int) -> int:
    """Return the raw size of a frame with data: type, length and checksum take 8 bytes of it."""
    if head[0] == _COMPRESSED:
        return _varint(head[8:])
    if head[0] == _STORED and frame_bytes >= 4:
        return frame_bytes - 4
    raise FormatError(f"snappy frame of unknown type {head[0]:#04x}, or without checksum")


def _varint(data: bytes) -> int:
    value = 0
    for index, byte in enumerate(data):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value
    raise FormatError("snappy block announces no size")

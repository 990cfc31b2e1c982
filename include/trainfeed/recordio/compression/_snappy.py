"""The size that a framed snappy stream announces, read without decompressing it.

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
    """Yield for every frame behind the identifier its first bytes and its length without head.

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

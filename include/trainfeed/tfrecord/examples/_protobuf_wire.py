"""The part of the protobuf wire format that Examples need.

::

    message := field*
    field   := tag value                    tag = varint of number << 3 | wire type
    value   := varint                       wire type 0, 7 bits per byte, low ones first
             | 8 bytes                      wire type 1
             | length bytes                 wire type 2, length = varint
             | field* end tag               wire type 3, ended by wire type 4
             | 4 bytes                      wire type 5

Every length, the nesting and the end of every varint are checked. Errors have offsets in the
record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import FormatError

__all__ = ["MAX_VARINT_BYTES", "decode_varints", "encode_varint", "encode_varints", "iter_fields"]

_VARINT, _FIXED64, _BYTES, _GROUP, _END_GROUP, _FIXED32 = range(6)
_FIXED_BYTES: Final = {_FIXED64: 8, _FIXED32: 4}

MAX_VARINT_BYTES: Final = 10
# Tags and lengths have 32 bits; a message is at most 2 GiB long.
_MAX_SHORT_VARINT_BYTES: Final = 5
_MAX_TAG: Final = (1 << 32) - 1
_MAX_MESSAGE_BYTES: Final = (1 << 31) - 1
_MAX_DEPTH: Final = 100
_PLAIN_TAGS: Final = frozenset(range(1 << 3 | _BYTES, 0x80, 1 << 3))

_MASK64: Final = (1 << 64) - 1
# Up to these numbers a Python loop is faster than numpy.
_FEW_VALUES: Final = 8
_FEW_BYTES: Final = 96


def iter_fields(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the fields of a message.

    Args:
        data: The record.
        start: Start of the message in the record.
        end: End of the message in the record.

    Yields:
        Tag, and start and end of the value in ``data``, without its length. Groups are skipped: no
        message here has one.

    Raises:
        FormatError: The bytes are not a message.
    """
    position = start
    while position < end:
        tag = data[position]
        # The fast path, for nearly every field of an Example: one byte of tag, one byte of length.
        if tag in _PLAIN_TAGS and position + 1 < end:
            after = position + 2 + (num_bytes := data[position + 1])
            if num_bytes < 0x80 and after <= end:
                yield tag, position + 2, after
                position = after
                continue
        tag, position = _read_tag(data, position, end)
        wire_type = tag & 7
        if wire_type == _GROUP:
            position = _end_of_group(data, position, end, tag)
            continue
        if wire_type == _END_GROUP:
            raise FormatError("expected a field, got the end of a group", offset_bytes=position)
        value, position = _value_bounds(data, position, end, wire_type)
        yield tag, value, position


def encode_varint(value: int) -> bytes:
    """Return an integer as a varint; a negative one as its 64 bits in two's complement."""
    rest = value & _MASK64
    data = bytearray()
    while rest > 0x7F:
        data.append(rest & 0x7F | 0x80)
        rest >>= 7
    data.append(rest)
    return bytes(data)


def encode_varints(values: NDArray[np.int64]) -> bytes:
    """Return integers, shape ``(n,)``, as joined varints."""
    if len(values) <= _FEW_VALUES:
        return b"".join(map(encode_varint, values.tolist()))
    bits = np.ascontiguousarray(values).view(np.uint64)
    num_bytes = np.ones(len(bits), np.int64)
    for shift in range(7, 64, 7):
        num_bytes += bits >= np.uint64(1 << shift)
    columns = np.arange(num_bytes.max())
    # Column k of ``groups`` holds bits 7k to 7k + 6; rows are cut to the bytes that they need.
    groups = (bits[:, None] >> (7 * columns).astype(np.uint64)).astype(np.uint8) & 0x7F
    groups[columns < num_bytes[:, None] - 1] |= 0x80
    return groups[columns < num_bytes[:, None]].tobytes()


def decode_varints(data: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the integers of varints.

    Args:
        data: Joined whole varints of at most 10 bytes, shape ``(num_bytes,)``.

    Returns:
        The integers, shape ``(n,)``.
    """
    if len(data) <= _FEW_BYTES:
        return _decode_few_varints(data.tolist())
    ends = np.flatnonzero(data < 0x80)
    if len(ends) == len(data):
        return data.astype(np.int64)
    starts = np.concatenate([[0], ends[:-1] + 1])
    num_bytes = ends - starts + 1
    values = np.zeros(len(ends), np.uint64)
    # Byte i of all varints that have so many bytes, at most 10 steps for any number of them.
    for i in range(num_bytes.max()):
        longer = np.flatnonzero(num_bytes > i)
        groups = (data[starts[longer] + i] & 0x7F).astype(np.uint64)
        values[longer] |= groups << np.uint64(7 * i)
    return values.view(np.int64)


def _decode_few_varints(data: list[int]) -> NDArray[np.int64]:
    values, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            values.append(value & _MASK64)
            value = shift = 0
    return np.array(values, np.uint64).view(np.int64)


def _read_tag(data: bytes, position: int, end: int) -> tuple[int, int]:
    tag, after = _read_short_varint(data, position, end)
    if not 8 <= tag <= _MAX_TAG:
        raise FormatError(f"expected a tag with a field number, got {tag}", offset_bytes=position)
    return tag, after


def _read_short_varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """Return the varint of a tag or a length, and its end."""
    if position < end and (value := data[position]) < 0x80:
        return value, position + 1
    after = _end_of_varint(data, position, end, _MAX_SHORT_VARINT_BYTES)
    value = 0
    for byte in reversed(data[position:after]):
        value = value << 7 | byte & 0x7F
    return value, after


def _end_of_varint(data: bytes, position: int, end: int, max_bytes: int) -> int:
    for after in range(position, min(end, position + max_bytes)):
        if data[after] < 0x80:
            return after + 1
    raise FormatError(
        f"expected a varint of at most {max_bytes} bytes in the {end - position} that are left, it"
        " has no end",
        offset_bytes=position,
    )


def _value_bounds(data: bytes, position: int, end: int, wire_type: int) -> tuple[int, int]:
    if wire_type == _BYTES:
        num_bytes, start = _read_short_varint(data, position, end)
        if num_bytes > min(end - start, _MAX_MESSAGE_BYTES):
            raise FormatError(
                f"expected a value of {num_bytes} bytes, {end - start} are left",
                offset_bytes=position,
            )
        return start, start + num_bytes
    if wire_type == _VARINT:
        return position, _end_of_varint(data, position, end, MAX_VARINT_BYTES)
    if wire_type not in _FIXED_BYTES:
        raise FormatError(
            f"expected a wire type from 0 to 5, got {wire_type}", offset_bytes=position
        )
    after = position + _FIXED_BYTES[wire_type]
    if after > end:
        raise FormatError(
            f"expected a value of {after - position} bytes, {end - position} are left",
            offset_bytes=position,
        )
    return position, after


def _end_of_group(data: bytes, position: int, end: int, tag: int) -> int:
    """Return the end of the group of ``tag``; a loop, because the writer chooses the depth."""
    open_tags = [tag]
    while open_tags:
        tag, position = _read_tag(data, position, end)
        wire_type = tag & 7
        if wire_type == _GROUP:
            open_tags.append(tag)
            if len(open_tags) > _MAX_DEPTH:
                raise FormatError(
                    f"expected at most {_MAX_DEPTH} nested groups", offset_bytes=position
                )
        elif wire_type == _END_GROUP:
            if tag >> 3 != open_tags.pop() >> 3:
                raise FormatError("expected the end of another group", offset_bytes=position)
        else:
            position = _value_bounds(data, position, end, wire_type)[1]
    return position

"""The wire format of Examples: protobuf fields, and the places of the values of a feature."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import FormatError

# --- The part of the protobuf wire format that Examples need

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
        # One byte per 7 bits: each threshold that a value reaches adds one.
        num_bytes += bits >= np.uint64(1 << shift)
    columns = np.arange(num_bytes.max())
    # Column k of ``groups`` holds bits 7k to 7k + 6; rows are cut to the bytes that they need.
    groups = (bits[:, None] >> (7 * columns).astype(np.uint64)).astype(np.uint8) & 0x7F
    # The continuation bit in all bytes of a value but its last.
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


# --- The features of a message: finds the places of their values, and builds their bytes

# Tags of length-delimited fields.
# A tag is field number << 3 | wire type; wire type 2 is followed by a length and so many bytes.
_FIELD_1: Final = 0x0A
_FIELD_2: Final = 0x12
# Tags of values that are not packed.
_VARINT_1: Final = 0x08
_FIXED32_1: Final = 0x0D

_FLOAT_BYTES: Final = 4
# Ten bytes with the continuation bit: a varint of 64 bits ends at the tenth byte at the latest.
_ENDLESS_VARINT: Final = re.compile(rb"[\x80-\xff]{10}")


class ListKind(IntEnum):
    """Kind of the list of a feature; the values are field numbers."""

    BYTES = 1
    FLOAT = 2
    INT64 = 3


_KINDS: Final = {kind << 3 | 2: kind for kind in ListKind}
_UNPACKED: Final = {ListKind.FLOAT: _FIXED32_1, ListKind.INT64: _VARINT_1}


class RawFeature:
    """The place of a feature's values in a record.

    Attributes:
        kind: Kind of its list; None without a list.
        bounds: Alternating start and end of each piece: a value of bytes, or whole packed numbers.
            An array, not a list of pairs: an empty value takes 2 bytes in a record, and a pair
            takes about a hundred.
    """

    __slots__ = ("bounds", "kind")

    def __init__(self) -> None:
        self.kind: ListKind | None = None
        self.bounds: array[int] = array("q")

    @property
    def num_pieces(self) -> int:
        """Number of pieces."""
        return len(self.bounds) // 2

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield the pieces of the record ``data``."""
        # The same iterator twice: zip takes starts and ends in turn.
        bounds = iter(self.bounds)
        return (data[start:end] for start, end in zip(bounds, bounds, strict=True))

    def content(self, data: bytes) -> bytes:
        """Return the joined pieces of the record ``data``."""
        if self.num_pieces == 1:
            return data[self.bounds[0] : self.bounds[1]]
        return b"".join(self.pieces(data))


def scan_features(data: bytes, start: int, end: int, features: dict[str, RawFeature]) -> None:
    """Add the features of a Features message to ``features``.

    Raises:
        FormatError: The bytes are not such a message.
    """
    for key, values in scan_entries(data, start, end):
        # A repeated key replaces the entry; several values of one entry are merged.
        feature = features[key] = RawFeature()
        for value_start, value_end in values:
            scan_feature(data, value_start, value_end, feature)


def scan_entries(data: bytes, start: int, end: int) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """Yield the entries of a message that is a map in its field 1.

    Yields:
        Key, and bounds of the value: none for an empty value, several for pieces to be merged.

    Raises:
        FormatError: The bytes are not such a message, or a key is not UTF-8.
    """
    for tag, entry_start, entry_end in iter_fields(data, start, end):
        if tag != _FIELD_1:
            continue
        key, values = b"", []
        for entry_tag, value_start, value_end in iter_fields(data, entry_start, entry_end):
            if entry_tag == _FIELD_1:
                key = data[value_start:value_end]
            elif entry_tag == _FIELD_2:
                values.append((value_start, value_end))
        try:
            yield key.decode(), values
        except UnicodeDecodeError as error:
            raise FormatError(
                f"expected a key in UTF-8, got {key[:60]!r}", offset_bytes=entry_start
            ) from error


def scan_feature(data: bytes, start: int, end: int, feature: RawFeature) -> None:
    """Merge a Feature message into ``feature``.

    Raises:
        FormatError: The bytes are not such a message.
    """
    for tag, list_start, list_end in iter_fields(data, start, end):
        kind = _KINDS.get(tag)
        if kind is None:
            continue
        # A oneof: a list of another kind replaces the values, one of the same kind appends.
        if kind is not feature.kind:
            feature.kind, feature.bounds = kind, array("q")
        _scan_list(data, list_start, list_end, feature)


def _scan_list(data: bytes, start: int, end: int, feature: RawFeature) -> None:
    unpacked = _UNPACKED.get(feature.kind) if feature.kind else None
    extend = feature.bounds.extend
    for tag, value_start, value_end in iter_fields(data, start, end):
        if tag == _FIELD_1:
            if feature.kind is not ListKind.BYTES:
                check_packed(data, value_start, value_end, feature.kind)
            extend((value_start, value_end))
        elif tag == unpacked:
            extend((value_start, value_end))


def check_packed(data: bytes, start: int, end: int, kind: ListKind | None) -> None:
    """Refuse a piece that does not end with a whole number.

    Raises:
        FormatError: A number is cut off, or a varint is too long.
    """
    if kind is ListKind.FLOAT:
        if (end - start) % _FLOAT_BYTES:
            raise FormatError(
                f"expected floats of 4 bytes each, got {end - start} bytes", offset_bytes=start
            )
    elif start < end and (data[end - 1] > 0x7F or _ENDLESS_VARINT.search(data, start, end)):
        raise FormatError(
            "expected varints of at most 10 bytes, one has no end", offset_bytes=start
        )


def message_field(number: int, content: bytes) -> bytes:
    """Return a length-delimited field with a number below 16."""
    return bytes([number << 3 | 2]) + encode_varint(len(content)) + content


def feature_message(kind: ListKind | None, values: Iterable[bytes]) -> bytes:
    """Return a Feature message.

    Args:
        kind: Kind of the list; None for a feature without a list.
        values: The values of a list of bytes; for numbers a single value with all of them, packed.
    """
    if kind is None:
        return b""
    content = b"".join(
        [message_field(1, value) for value in values if value or kind == ListKind.BYTES]
    )
    return message_field(kind, content)


def map_message(entries: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return a message that is a map in its field 1, with entries in the given order."""
    return b"".join(
        [
            message_field(1, message_field(1, key) + message_field(2, value))
            for key, value in entries
        ]
    )


def key_order(key: str) -> tuple[int, ...]:
    """Return a sort key for the order of TensorFlow's deterministic serialisation.

    Keys are ordered by their bytes, but a prefix of another key comes after it; the empty key is
    last.

    Raises:
        TypeError: The key is not a str.
    """
    if not isinstance(key, str):
        raise TypeError(f"expected a key as str, got {type(key).__name__}")
    return (*key.encode(), 256)

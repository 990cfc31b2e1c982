"""The features of a message: finds the places of their values, and builds their bytes.

::

    Features     := map of key (1, UTF-8) to Feature (2), field 1
    Feature      := at most one of BytesList (1), FloatList (2), Int64List (3)
    BytesList    := values, field 1
    FloatList    := little-endian float32, field 1, packed into one value or not
    Int64List    := varints, field 1, packed into one value or not
    FeatureLists := map of key (1) to FeatureList (2), field 1
    FeatureList  := Features, field 1

A repeated field is merged with the earlier one, as protobuf prescribes: lists of the same kind are
joined; of two lists of different kinds, and of two map entries with the same key, the later one
counts.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Final

from trainfeed.errors import FormatError
from trainfeed.tfrecord.examples._protobuf_wire import encode_varint, iter_fields

__all__ = [
    "ListKind",
    "RawFeature",
    "check_packed",
    "feature_message",
    "key_order",
    "map_message",
    "message_field",
    "scan_entries",
    "scan_feature",
    "scan_features",
]

# Tags of length-delimited fields.
_FIELD_1: Final = 0x0A
_FIELD_2: Final = 0x12
# Tags of values that are not packed.
_VARINT_1: Final = 0x08
_FIXED32_1: Final = 0x0D

_FLOAT_BYTES: Final = 4
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

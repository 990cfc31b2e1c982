"""Examples and SequenceExamples as Python values, and features as arrays of a field."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import ConfigError, FormatError, SampleShapeError
from trainfeed.tfrecord.wire import (
    MAX_VARINT_BYTES,
    ListKind,
    RawFeature,
    decode_varints,
    encode_varints,
    feature_message,
    iter_fields,
    key_order,
    map_message,
    message_field,
    scan_entries,
    scan_feature,
    scan_features,
)

# --- Python values to the lists of a feature; refuses values that a list cannot represent

_BYTES_TYPES: Final = (bytes, bytearray, memoryview)
_MIN_INT64, _MAX_INT64 = -(1 << 63), (1 << 63) - 1


def list_of_value(value: Any) -> tuple[ListKind | None, list[bytes]]:
    """Return the kind of list for a value, and its content in the form of ``feature_message``.

    Raises:
        TypeError: No list can represent values of this type.
        ValueError: A number is out of range.
    """
    if value is None:
        return None, []
    if isinstance(value, np.ndarray | np.generic):
        return _of_array(np.asarray(value))
    return _of_list(value if isinstance(value, list | tuple) else [value])


def packed_integers(values: NDArray[Any]) -> bytes:
    """Return integers of any shape, in the range of int64, as packed varints."""
    return encode_varints(values.reshape(-1).astype(np.int64, copy=False))


def packed_floats(values: NDArray[Any]) -> bytes:
    """Return floats of any shape as packed float32."""
    return values.astype("<f4", copy=False).tobytes()


def _of_array(array: NDArray[Any]) -> tuple[ListKind, list[bytes]]:
    if array.dtype in (np.float32, np.float16):
        return ListKind.FLOAT, [packed_floats(array)]
    if array.dtype.kind not in "iu":
        raise TypeError(
            f"expected an array of integers, float16 or float32, got {array.dtype}; convert it, or"
            " store its bytes"
        )
    if array.size and int(array.max()) > _MAX_INT64:
        raise ValueError(f"expected integers up to {_MAX_INT64}, got {array.max()}")
    return ListKind.INT64, [packed_integers(array)]


def _of_list(values: list[Any] | tuple[Any, ...]) -> tuple[ListKind, list[bytes]]:
    if all(isinstance(value, _BYTES_TYPES) for value in values):
        return ListKind.BYTES, [bytes(value) for value in values]
    if all(_is_integer(value) for value in values):
        if outside := [value for value in values if not _MIN_INT64 <= value <= _MAX_INT64]:
            raise ValueError(f"expected integers of 64 bits, got {outside[0]}")
        return ListKind.INT64, [packed_integers(np.array(values, np.int64))]
    if all(isinstance(value, float | np.floating) for value in values):
        return ListKind.FLOAT, [_rounded(values)]
    kinds = sorted({type(value).__name__ for value in values})
    raise TypeError(f"expected bytes, int or float alone, got {' and '.join(kinds)}")


def _is_integer(value: Any) -> bool:
    # bool is a subclass of int, but a boolean is not meant as a number.
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _rounded(values: list[Any] | tuple[Any, ...]) -> bytes:
    exact = np.array(values, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = exact.astype(np.float32)
    if np.any(np.isinf(rounded) & np.isfinite(exact)):
        raise ValueError(f"expected floats up to {np.finfo(np.float32).max}, got a larger one")
    return packed_floats(rounded)


# --- Examples and SequenceExamples: messages to Python values and back

FeatureValue: TypeAlias = list[bytes] | NDArray[np.float32] | NDArray[np.int64] | None

# Tags of length-delimited fields: field number << 3 | 2.
_FIELD_1: Final = 0x0A
_FIELD_2: Final = 0x12


@dataclass(frozen=True)
class SequenceExample:
    """An Example whose features are lists of features.

    Attributes:
        context: Key → feature of the whole sequence.
        feature_lists: Key → features, one per step.
    """

    context: dict[str, FeatureValue] = field(default_factory=dict)
    feature_lists: dict[str, list[FeatureValue]] = field(default_factory=dict)


def encode_example(features: Mapping[str, Any]) -> bytes:
    """Return the record of an Example, equal to TensorFlow's deterministic serialisation.

    Args:
        features: Key → feature: a value in the form of ``decode_example``, a single value, or a
            list of bytes, of int, or of float. Arrays may have integers in the range of int64,
            float16 or float32; they are stored in C order, without their shape. Python floats are
            rounded to float32. An empty list is a list of bytes; use an empty array for an empty
            list of float or int. None is a feature without a list.

    Returns:
        The record; empty if there are no features.
    """
    return message_field(1, _features_message(features)) if features else b""


def decode_example(record: bytes | bytearray | memoryview) -> dict[str, FeatureValue]:
    """Return the features of an Example, in the order of the record.

    Returns:
        Key → list of bytes, array of float32 ``(n,)``, array of int64 ``(n,)``, or None for a
        feature without a list; all in memory of their own.

    Raises:
        FormatError: The record is not an Example; ``offset_bytes`` counts from its start.
    """
    data = bytes(record)
    return {key: _value_of(data, feature) for key, feature in scan_example(data).items()}


def encode_sequence_example(
    context: Mapping[str, Any], feature_lists: Mapping[str, Sequence[Any]]
) -> bytes:
    """Return the record of a SequenceExample, equal to TensorFlow's deterministic serialisation.

    Args:
        context: See ``features`` of ``encode_example``.
        feature_lists: Key → sequence of features, in the forms that ``encode_example`` takes.
    """
    record = message_field(1, _features_message(context)) if context else b""
    if feature_lists:
        entries = (
            (
                key.encode(),
                b"".join([message_field(1, _feature_message(key, v)) for v in feature_lists[key]]),
            )
            for key in sorted(feature_lists, key=key_order)
        )
        record += message_field(2, map_message(entries))
    return record


def decode_sequence_example(record: bytes | bytearray | memoryview) -> SequenceExample:
    """Return a SequenceExample, in memory of its own.

    Raises:
        FormatError: The record is not a SequenceExample; ``offset_bytes`` counts from its start.
    """
    data = bytes(record)
    context: dict[str, RawFeature] = {}
    feature_lists: dict[str, list[FeatureValue]] = {}
    for tag, start, end in iter_fields(data, 0, len(data)):
        if tag == _FIELD_1:
            scan_features(data, start, end, context)
        elif tag == _FIELD_2:
            for key, values in scan_entries(data, start, end):
                feature_lists[key] = _feature_list(data, values)
    return SequenceExample(
        {key: _value_of(data, feature) for key, feature in context.items()}, feature_lists
    )


def scan_example(data: bytes) -> dict[str, RawFeature]:
    """Return the places of the features of an Example in its record.

    Raises:
        FormatError: The record is not an Example.
    """
    features: dict[str, RawFeature] = {}
    for tag, start, end in iter_fields(data, 0, len(data)):
        if tag == _FIELD_1:
            scan_features(data, start, end, features)
    return features


def _features_message(features: Mapping[str, Any]) -> bytes:
    return map_message(
        (key.encode(), _feature_message(key, features[key]))
        for key in sorted(features, key=key_order)
    )


def _feature_message(key: str, value: Any) -> bytes:
    try:
        return feature_message(*list_of_value(value))
    except (TypeError, ValueError) as error:
        error.add_note(f"in feature {key!r}")
        raise


def _feature_list(data: bytes, values: list[tuple[int, int]]) -> list[FeatureValue]:
    features = []
    for list_start, list_end in values:
        for tag, start, end in iter_fields(data, list_start, list_end):
            if tag == _FIELD_1:
                feature = RawFeature()
                scan_feature(data, start, end, feature)
                features.append(_value_of(data, feature))
    return features


def _value_of(data: bytes, feature: RawFeature) -> FeatureValue:
    match feature.kind:
        case None:
            return None
        case ListKind.BYTES:
            return list(feature.pieces(data))
        case ListKind.FLOAT:
            return np.frombuffer(feature.content(data), "<f4").astype(np.float32)
        case ListKind.INT64:
            return decode_varints(np.frombuffer(feature.content(data), np.uint8))


# --- Lists of Examples as arrays of a field's dtype and shape, many records at once

_TEXTS: Final = ("bytes", "str")
_IN_BYTES: Final = ("uint64", "float64")


class SampleField(Protocol):
    """The attributes of ``trainfeed.samples.Field`` that this room needs."""

    @property
    def name(self) -> str:
        """The key of its feature."""

    @property
    def dtype(self) -> str:
        """``bool``, ``int8`` to ``uint64``, ``float16`` to ``float64``, ``bytes`` or ``str``."""

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Lengths; None as the first length means that it varies from record to record."""

    @property
    def optional(self) -> bool:
        """Whether a record may lack the field."""


_Shape: TypeAlias = tuple[int | None, ...]
Fields: TypeAlias = Iterable[SampleField] | Mapping[str, tuple[str, _Shape]]


class FeatureColumn:
    """One field of all records.

    Attributes:
        name: Key of the feature.
        shape: Shape of the field; None as the first length means that it varies.
        optional: Whether a record may lack the field.
        is_text: Whether the field holds bytes or str.
        is_str: Whether the field holds str.
        is_fixed: Whether the field has the same shape in all records.
        item_shape: Shape without the variable length.
        dtype: Little-endian dtype; ``object`` for bytes and str.
        kind: Kind of list in which the field is written.
        in_bytes: Whether numbers are written as one value of bytes.

    Raises:
        ConfigError: The dtype or the shape is unknown.
    """

    def __init__(self, name: str, dtype: str, shape: _Shape, *, optional: bool = False) -> None:
        self.name = name
        self.optional = optional
        self.shape = tuple(shape)
        self.is_text = dtype in _TEXTS
        self.is_str = dtype == "str"
        self.dtype = np.dtype(object) if self.is_text else _number_dtype(name, dtype)
        self.item_shape = tuple(length for length in self.shape if length is not None)
        self.is_fixed = self.shape == self.item_shape
        self._check_shape()
        self._item_size = math.prod(self.item_shape)
        self.in_bytes = dtype in _IN_BYTES or (dtype == "uint8" and bool(self.shape))
        if self.is_text or self.in_bytes:
            self.kind = ListKind.BYTES
        else:
            self.kind = ListKind.FLOAT if self.dtype.kind == "f" else ListKind.INT64

    def values(self, kind: ListKind, rows: NDArray[np.uint8]) -> NDArray[Any]:
        """Return the values in the lists of records, lists of equal size.

        Args:
            kind: Kind of the lists.
            rows: A packed list or a value of bytes per record, with equal numbers of values; shape
                ``(n, num_bytes)``.

        Returns:
            An array of shape ``(n, *shape)``, in memory of its own; of objects for bytes and str.

        Raises:
            FormatError: The lists do not match the field.
        """
        if self.is_text:
            return self._texts(kind, rows)
        return self._shaped(self._numbers(kind, rows))

    def ragged_values(
        self,
        kind: ListKind,
        data: NDArray[np.uint8],
        starts: NDArray[np.int64],
        ends: NDArray[np.int64],
    ) -> NDArray[Any]:
        """Return the values in lists of different sizes.

        Args:
            kind: Kind of the lists.
            data: Bytes that contain the lists, shape ``(num_bytes,)``.
            starts: Starts of the lists in ``data``, shape ``(n,)``.
            ends: Ends of the lists in ``data``, shape ``(n,)``.

        Returns:
            An array of shape ``(n, *shape)`` for a field of fixed size, otherwise ``(n,)`` of
            objects; in memory of its own.

        Raises:
            FormatError: The lists do not match the field.
        """
        if self.is_text:
            pairs = zip(starts.tolist(), ends.tolist(), strict=True)
            return self._texts(kind, [data[start:end] for start, end in pairs])
        # The bytes of all lists joined; list i lies between limits i and i + 1.
        content = data[_ragged_places(starts, ends)]
        limits = np.concatenate([[0], np.cumsum(ends - starts)])
        values, limits = self._joined_numbers(kind, content, limits)
        if self.is_fixed:
            if np.any(np.diff(limits) != self._item_size):
                raise self.refuse("another number of values")
            return values.reshape(len(starts), *self.item_shape)
        if np.any(limits % self._item_size):
            raise self.refuse("rows that are not whole")
        arrays = np.empty(len(starts), object)
        rows = values.reshape(-1, *self.item_shape)
        edges = (limits // self._item_size).tolist()
        for i in range(len(starts)):
            # Copies, so that a kept row does not keep the memory of all rows.
            arrays[i] = rows[edges[i] : edges[i + 1]].copy()
        return arrays

    def accepts(self, shape: tuple[int, ...]) -> bool:
        """Return whether the numbers of a record may have this shape."""
        if self.is_fixed:
            return shape == self.item_shape
        return len(shape) == len(self.shape) and shape[1:] == self.item_shape

    def mismatch(self, got: str) -> SampleShapeError:
        """Return the error for a sample, with the expected and the given type."""
        return SampleShapeError(self.refuse(got).args[0])

    def refuse(self, got: str) -> FormatError:
        """Return the error for a record, with the expected and the given type."""
        shape = f" {tuple('n' if length is None else length for length in self.shape)}"
        dtype = ("str" if self.is_str else "bytes") if self.is_text else self.dtype.name
        return FormatError(
            f"field {self.name!r}: expected {dtype}{shape if self.shape else ''}, got {got}"
        )

    def _joined_numbers(
        self, kind: ListKind, content: NDArray[np.uint8], limits: NDArray[np.int64]
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return the numbers of joined lists, and the limits of lists as counts of numbers."""
        if kind is ListKind.INT64:
            # The last byte of a varint has no continuation bit. Every list that is not empty must
            # end with such a byte, and no varint may be longer than 10 bytes.
            ends = np.flatnonzero(content < 0x80)
            if np.any(content[limits[1:][np.diff(limits) > 0] - 1] > 0x7F) or np.any(
                np.diff(ends, prepend=-1) > MAX_VARINT_BYTES
            ):
                raise self.refuse("a varint without end")
            return self._cast(decode_varints(content)), np.searchsorted(ends, limits)
        item_bytes = 4 if kind is ListKind.FLOAT else self.dtype.itemsize
        if np.any(limits % item_bytes):
            raise self.refuse("a list that does not end with a number")
        values = self._numbers(kind, content[np.newaxis])[0]
        return values, limits // item_bytes

    def _texts(
        self, kind: ListKind, rows: Sequence[NDArray[np.uint8]] | NDArray[np.uint8]
    ) -> NDArray[Any]:
        if kind is not ListKind.BYTES:
            raise self.refuse(f"a list of {kind.name.lower()}")
        texts = np.empty(len(rows), object)
        try:
            for i, row in enumerate(rows):
                texts[i] = row.tobytes().decode() if self.is_str else row.tobytes()
        except UnicodeDecodeError as error:
            raise self.refuse(f"no UTF-8: {error}") from error
        return texts

    def _numbers(self, kind: ListKind, rows: NDArray[np.uint8]) -> NDArray[Any]:
        # The copy first: a slice of records is read-only, and rarely contiguous.
        data = np.array(rows, order="C")
        if kind is ListKind.BYTES:
            if data.shape[1] % self.dtype.itemsize:
                raise self.refuse(f"{data.shape[1]} bytes")
            if self.dtype.kind == "b" and np.any(data > 1):
                raise self.refuse("a byte that is neither 0 nor 1")
            return data.view(self.dtype)
        if kind is ListKind.FLOAT:
            return self._cast(data.view("<f4"))
        return self._cast(decode_varints(data.reshape(-1)).reshape(len(rows), -1))

    def _cast(self, values: NDArray[Any]) -> NDArray[Any]:
        if values.dtype == self.dtype:
            return values
        if (values.dtype.kind == "f") != (self.dtype.kind == "f"):
            raise self.refuse(f"a list of {values.dtype.name}")
        with np.errstate(over="ignore"):
            cast = values.astype(self.dtype)
        # The cast must keep every value: other numbers are refused, not rounded.
        if not np.array_equal(cast, values, equal_nan=values.dtype.kind == "f"):
            raise self.refuse("a value that does not fit")
        return cast

    def _shaped(self, values: NDArray[Any]) -> NDArray[Any]:
        num_rows, num_values = values.shape
        if self.is_fixed:
            matches = num_values == self._item_size
        else:
            matches = not num_values % self._item_size
        if not matches:
            raise self.refuse(f"{num_values} values")
        # The number of rows is given, not -1: without values numpy could not compute it.
        lengths = self.item_shape
        if not self.is_fixed:
            lengths = (num_values // self._item_size, *lengths)
        return values.reshape(num_rows, *lengths)

    def _check_shape(self) -> None:
        lengths = self.shape[1:] if self.shape[:1] == (None,) else self.shape
        good = all(isinstance(length, int) and length >= 1 for length in lengths)
        if not good or (self.is_text and self.shape):
            raise ConfigError(
                f"field {self.name!r}: expected lengths from 1 on, the first may be None, and none"
                f" for bytes and str, got {self.shape}"
            )


def _ragged_places(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the places of all ranges from ``starts`` to ``ends``, joined."""
    lengths = ends - starts
    before = np.cumsum(lengths) - lengths
    # In range i, place = starts[i] + (k - before[i]), where k is the index in the result.
    places: NDArray[np.int64] = np.repeat(starts - before, lengths)
    return places + np.arange(len(places))


def columns_of(fields: Fields) -> list[FeatureColumn]:
    """Return the columns of a schema, of fields, or of a mapping from name to dtype and shape.

    Raises:
        ConfigError: A dtype or shape is unknown, or two fields have the same name.
    """
    if isinstance(fields, Mapping):
        return [FeatureColumn(name, dtype, shape) for name, (dtype, shape) in fields.items()]
    columns = [
        FeatureColumn(field.name, field.dtype, field.shape, optional=field.optional)
        for field in fields
    ]
    names = [column.name for column in columns]
    if len(set(names)) < len(names):
        raise ConfigError(f"expected different field names, got {names}")
    return columns


def _number_dtype(name: str, dtype: str) -> np.dtype[Any]:
    try:
        number = np.dtype(dtype)
    except TypeError:
        number = np.dtype(object)
    if number.kind not in "biuf" or number.itemsize > 8:
        raise ConfigError(
            f"field {name!r}: expected bytes, str, or a dtype of numbers of at most 64 bits, got"
            f" {dtype!r}"
        )
    return number.newbyteorder("<")

"""Typed samples as Examples: a field is the feature of its name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import FormatError, SampleShapeError
from trainfeed.tfrecord._columns import Column, Fields, columns_of
from trainfeed.tfrecord._features import (
    Kind,
    feature_message,
    key_order,
    map_message,
    message_field,
)
from trainfeed.tfrecord._parse import BatchParser, parse_row
from trainfeed.tfrecord._values import packed_floats, packed_integers

__all__ = ["ExampleCodec"]

_Value: TypeAlias = NDArray[Any] | bytes | str | None


class ExampleCodec:
    """Encodes and decodes the samples of one schema as Examples; threads may share it.

    Nothing is lost either way, given the schema: dtypes and shapes are not in the records.

    Args:
        fields: A ``trainfeed.samples.Schema``, an iterable of its fields, or a mapping from key
            to dtype and shape.

    Raises:
        ConfigError: There is no such dtype or shape.
    """

    def __init__(self, fields: Fields) -> None:
        self._columns = columns_of(fields)
        self._parser = BatchParser(self._columns)
        self._names = frozenset(column.name for column in self._columns)
        self._sorted = [
            (column, column.name.encode())
            for column in sorted(self._columns, key=lambda column: key_order(column.name))
        ]

    def encode(self, sample: Mapping[str, Any]) -> bytes:
        """Return the record of a sample.

        Args:
            sample: Field to value as ``trainfeed.samples.TypedCodec.decode`` gives it: an array of
                the field's dtype and shape, bytes or str. An optional field may be None or missing.

        Raises:
            SampleShapeError: A field is missing or unknown, or has another shape or type.
        """
        if unknown := sample.keys() - self._names:
            raise SampleShapeError(
                f"expected the fields {sorted(self._names)}, got also {sorted(unknown)}"
            )
        entries = []
        for column, key in self._sorted:
            value = sample.get(column.name)
            if value is not None:
                entries.append((key, feature_message(column.kind, [_content(column, value)])))
            elif not column.optional:
                _refuse(column, "nothing")
        return message_field(1, map_message(entries))

    def decode(self, record: bytes | bytearray | memoryview) -> dict[str, _Value]:
        """Return the sample of a record, in memory of its own.

        Returns:
            Field to array of the field's shape, ``()`` for a number; bytes, str, or None for an
            optional field that is absent.

        Raises:
            FormatError: The record is no Example, or does not hold the fields.
        """
        values = parse_row(bytes(record), self._columns)
        return {
            column.name: _without_row(column, value)
            for column, value in zip(self._columns, values, strict=True)
        }

    def decode_records(
        self, records: Iterable[bytes | bytearray | memoryview]
    ) -> dict[str, NDArray[Any]]:
        """Return the fields of many records; see ``parse_examples``.

        Raises:
            FormatError: A record is no Example, or does not hold the fields.
        """
        return self._parser.parse(records)


def _content(column: Column, value: Any) -> bytes:
    if column.is_text:
        return _text_content(column, value)
    array = np.asarray(value)
    if array.dtype != column.dtype or not _has_shape(column, array):
        _refuse(column, f"{array.dtype} {array.shape}")
    if column.in_bytes:
        return array.astype(column.dtype, copy=False).tobytes()
    return packed_floats(array) if column.kind is Kind.FLOAT else packed_integers(array)


def _text_content(column: Column, value: Any) -> bytes:
    if column.is_str and isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            _refuse(column, str(error))
    if column.is_str or not isinstance(value, bytes | bytearray | memoryview):
        _refuse(column, f"a {type(value).__name__}")
    return bytes(value)


def _has_shape(column: Column, array: NDArray[Any]) -> bool:
    if column.is_fixed:
        return array.shape == column.item_shape
    return array.ndim == len(column.shape) and array.shape[1:] == column.item_shape


def _refuse(column: Column, got: str) -> NoReturn:
    refusal: FormatError = column.refuse(got)
    raise SampleShapeError(refusal.args[0])


def _without_row(column: Column, values: NDArray[Any] | None) -> _Value:
    if values is None:
        return None
    if column.is_text:
        text: bytes | str = values[0]
        return text
    # Not [0], which makes a number of a field without shape no array any more.
    return values.reshape(values.shape[1:])

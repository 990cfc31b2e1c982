"""Typed samples as Examples: every field is a feature of the same name."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import SampleShapeError
from trainfeed.tfrecord.examples._encode import encode_batch
from trainfeed.tfrecord.examples._feature_columns import FeatureColumn, Fields, columns_of
from trainfeed.tfrecord.examples._feature_values import packed_floats, packed_integers
from trainfeed.tfrecord.examples._features import (
    ListKind,
    feature_message,
    key_order,
    map_message,
    message_field,
)
from trainfeed.tfrecord.examples._parse import BatchParser, parse_row

__all__ = ["ExampleCodec"]

# Bytes that are encoded at once: more exceeds the cache of the processor, less costs more calls.
_BLOCK_BYTES: Final = 1 << 20

_Value: TypeAlias = NDArray[Any] | bytes | str | None


class ExampleCodec:
    """Encodes and decodes the samples of one schema as Examples; threads may share the object.

    With the schema nothing is lost in either direction; records do not contain dtypes and shapes.

    Args:
        fields: A ``trainfeed.samples.Schema``, an iterable of its fields, or a mapping from key
            to dtype and shape.

    Raises:
        ConfigError: A dtype or shape is unknown.
    """

    def __init__(self, fields: Fields) -> None:
        self._columns = columns_of(fields)
        self._parser = BatchParser(self._columns)
        self._names = frozenset(column.name for column in self._columns)
        self._sorted = [
            (column, column.name.encode())
            for column in sorted(self._columns, key=lambda column: key_order(column.name))
        ]
        row_bytes = sum(map(_work_bytes, self._columns))
        self._block_records = max(_BLOCK_BYTES // max(row_bytes, 1), 1)

    def encode(self, sample: Mapping[str, Any]) -> bytes:
        """Return the record of a sample.

        Args:
            sample: Field → value in the form of ``trainfeed.samples.TypedCodec.decode``: an array
                of the field's dtype and shape, bytes or str. An optional field may be None or
                missing.

        Raises:
            SampleShapeError: A field is missing or unknown, or has another shape or type.
        """
        self._require_known(sample.keys())
        entries = []
        for column, key in self._sorted:
            value = sample.get(column.name)
            if value is not None:
                entries.append((key, feature_message(column.kind, [_content(column, value)])))
            elif not column.optional:
                raise column.mismatch("nothing")
        return message_field(1, map_message(entries))

    def encode_columns(self, columns: Mapping[str, NDArray[Any]]) -> list[bytes]:
        """Return the records of many samples; they equal the results of ``encode``.

        Args:
            columns: Field → array of shape ``(n, *shape)``, in the form of ``decode_records`` and
                ``trainfeed.samples.TypedCodec.decode_columns``: object arrays for bytes, str and
                variable shapes; masked, or None, where an optional field is absent. An optional
                field may be missing.

        Raises:
            SampleShapeError: A field is missing or unknown, or has another shape or type, or
                columns differ in length.
        """
        self._require_known(columns.keys())
        for column in self._columns:
            if column.name not in columns and not column.optional:
                raise column.mismatch("nothing")
        lengths = {len(column) for column in columns.values()}
        if len(lengths) > 1:
            raise SampleShapeError(f"expected columns of one length, got {sorted(lengths)}")
        records: list[bytes] = []
        num_records = max(lengths, default=0)
        for start in range(0, num_records, self._block_records):
            end = min(start + self._block_records, num_records)
            block = {name: column[start:end] for name, column in columns.items()}
            records += encode_batch(self._sorted, block, end - start)
        return records

    def decode(self, record: bytes | bytearray | memoryview) -> dict[str, _Value]:
        """Return the sample of a record, in memory of its own.

        Returns:
            Field → array of the field's shape, ``()`` for a number; bytes, str, or None for an
            absent optional field.

        Raises:
            FormatError: The record is not an Example, or does not match the fields.
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
            FormatError: A record is not an Example, or does not match the fields.
        """
        return self._parser.parse(records)

    def _require_known(self, names: Set[str]) -> None:
        if unknown := names - self._names:
            raise SampleShapeError(
                f"expected the fields {sorted(self._names)}, got also {sorted(unknown)}"
            )


def _work_bytes(column: FeatureColumn) -> int:
    """Return an estimate of the bytes that encoding a column takes per record."""
    value_bytes = 16 if column.kind is ListKind.INT64 else column.dtype.itemsize
    return value_bytes * math.prod(column.item_shape)


def _content(column: FeatureColumn, value: Any) -> bytes:
    if column.is_text:
        return _text_content(column, value)
    array = np.asarray(value)
    if array.dtype != column.dtype or not column.accepts(array.shape):
        raise column.mismatch(f"{array.dtype} {array.shape}")
    if column.in_bytes:
        return array.astype(column.dtype, copy=False).tobytes()
    return packed_floats(array) if column.kind is ListKind.FLOAT else packed_integers(array)


def _text_content(column: FeatureColumn, value: Any) -> bytes:
    if column.is_str and isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise column.mismatch(str(error)) from error
    if column.is_str or not isinstance(value, bytes | bytearray | memoryview):
        raise column.mismatch(f"a {type(value).__name__}")
    return bytes(value)


def _without_row(column: FeatureColumn, values: NDArray[Any] | None) -> _Value:
    if values is None:
        return None
    if column.is_text:
        text: bytes | str = values[0]
        return text
    # Not values[0], which turns the value of a field without shape into a scalar.
    return values.reshape(values.shape[1:])

"""Arrow columns for the fields of a schema, and their records without a step per sample."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trainfeed.errors import SampleShapeError
from trainfeed.samples.schema import Field, Schema, set_bits
from trainfeed.samples.typed import TypedCodec

# Key of the schema, as JSON, in the metadata of columns.
METADATA: Final = b"trainfeed.schema"

_Bytes = NDArray[np.uint8]
_NUMBER_KINDS: Final = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
_NOTHING: Final = pa.scalar(b"", pa.large_binary())
_TEXTS: Final = {"bytes": pa.binary(), "str": pa.string()}


def arrow_schema(schema: Schema) -> pa.Schema:
    """Return the Arrow columns for samples, with the schema in the metadata."""
    columns = [pa.field(each.name, arrow_type(each), nullable=each.optional) for each in schema]
    return pa.schema(columns, metadata={METADATA: json.dumps(schema.to_json()).encode()})


def arrow_type(field: Field) -> pa.DataType:
    """Return the type of the column for a field."""
    kind = _TEXTS.get(field.dtype) or pa.from_numpy_dtype(np.dtype(field.dtype))
    for length in reversed(field.shape):
        # Lists of None length vary in length; items of lists are never null.
        item = pa.field("item", kind, nullable=False)
        kind = pa.list_(item) if length is None else pa.list_(item, length)
    return kind


class ColumnEncoder:
    """Encodes rows of columns as ``TypedCodec`` encodes samples one by one.

    Args:
        schema: The schema.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        # Absent values are zeros in a record, so the fixed part is encoded as if all were present.
        fixed = [replace(field, optional=False) for field in schema if field.is_fixed]
        self._fixed = TypedCodec(Schema(tuple(fixed))) if fixed else None
        self._variable = [field for field in schema if not field.is_fixed]

    def encode(self, samples: pa.RecordBatch) -> pa.Array:
        """Return a record per row.

        Args:
            samples: Columns of the schema; a missing one is all nulls.

        Returns:
            Large binary array of ``samples.num_rows`` records.

        Raises:
            SampleShapeError: A column does not match its field; the error does not name the row.
        """
        length = samples.num_rows
        if not length:
            return pa.array([], pa.large_binary())
        columns = {field.name: _column(field, samples) for field in self._schema}
        variable = [_variable(field, columns[field.name], length) for field in self._variable]
        parts = [self._presence(columns, length), self._fixed_bytes(columns, length)]
        parts += [np.ascontiguousarray(counts, "<u4").view(np.uint8) for counts, _ in variable]
        # In the order of the record: presence, fixed fields, counts. Values follow per row.
        head = np.hstack([part.reshape(length, -1) for part in parts if part.size])
        return joined([binary_rows(head), *[data for _, data in variable]])

    def first_wrong_row(self, samples: pa.RecordBatch) -> int:
        """Return the first row that cannot be encoded; there must be such a row."""
        start, length = 0, samples.num_rows
        while length > 1:
            # Bisection: the first wrong row is always in [start, start + length).
            half = length // 2
            if self._fits(samples.slice(start, half)):
                start, length = start + half, length - half
            else:
                length = half
        return start

    def _fits(self, samples: pa.RecordBatch) -> bool:
        try:
            self.encode(samples)
        except SampleShapeError:
            return False
        return True

    def _presence(self, columns: dict[str, pa.Array | None], length: int) -> _Bytes:
        bits = np.zeros((length, self._schema.presence_bytes), dtype=np.uint8)
        for number, field in enumerate(self._schema.optional):
            column = columns[field.name]
            if column is not None:
                set_bits(bits, number, _valid(column))
        return bits

    def _fixed_bytes(self, columns: dict[str, pa.Array | None], length: int) -> _Bytes:
        if self._fixed is None:
            return np.empty((length, 0), dtype=np.uint8)
        arrays = {
            field.name: _values(field, columns[field.name], length) for field in self._fixed.schema
        }
        return self._fixed.encode_columns(arrays).view(np.uint8)


def binary_rows(matrix: _Bytes) -> pa.Array:
    """Return the rows of a byte matrix as large binaries that share its memory."""
    matrix = np.ascontiguousarray(matrix)
    # Rows have one length, so the offsets of Arrow are its multiples.
    ends = np.arange(len(matrix) + 1, dtype=np.int64) * matrix.shape[1]
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(matrix)]
    return pa.Array.from_buffers(pa.large_binary(), len(matrix), buffers)


def joined(parts: Sequence[pa.Array]) -> pa.Array:
    """Return large binaries joined row by row."""
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, _NOTHING)


def _column(field: Field, samples: pa.RecordBatch) -> pa.Array | None:
    """Return the column of a field, None when no sample has it."""
    column = samples.column(field.name) if field.name in samples.schema.names else None
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    # Dictionary-encoded columns are expanded to their values.
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    if column is None or column.null_count == len(column):
        if len(samples) and not field.optional:
            got = "no column" if column is None else "nothing but nulls"
            raise SampleShapeError(f"field {field.name!r}: expected {field}, got {got}")
        return None
    if column.null_count and not field.optional:
        raise SampleShapeError(
            f"field {field.name!r}: expected {field}, got null; return a value, or make the field"
            " optional"
        )
    return column


def _valid(column: pa.Array) -> NDArray[np.bool_]:
    if not column.null_count:
        return np.ones(len(column), dtype=bool)
    valid: NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _values(field: Field, column: pa.Array | None, length: int) -> NDArray[Any]:
    """Return a column of fixed size as shape ``(length, *field.shape)``, zeros where absent."""
    shape = (length, *field.item_shape)
    if column is None:
        return np.zeros(shape, dtype=field.values_dtype)
    leaves, per_row = column, 1
    while pa.types.is_fixed_size_list(leaves.type):
        # ``values`` ignores the slice that the array is, so the slice is applied by hand.
        size = leaves.type.list_size
        leaves = leaves.values.slice(leaves.offset * size, len(leaves) * size)
        per_row *= size
    if per_row != math.prod(field.item_shape) or (field.shape and leaves is column):
        _refuse(field, column)
    values = _numbers(field, leaves, np.repeat(_valid(column), per_row)).reshape(shape)
    if column.null_count:
        # The bytes below a null are undefined in Arrow; records need zeros there.
        # The zero has the type of the values: beside a plain 0, numpy makes bools integers.
        present = _valid(column).reshape(-1, *[1] * len(field.shape))
        values = np.where(present, values, np.zeros((), values.dtype))
    return values


def _numbers(field: Field, leaves: pa.Array, wanted: NDArray[np.bool_]) -> NDArray[Any]:
    """Return numbers in their Arrow type; any number where ``wanted`` is False."""
    if not any(is_kind(leaves.type) for is_kind in _NUMBER_KINDS):
        _refuse(field, leaves)
    if leaves.null_count:
        if not _valid(leaves)[wanted].all():
            raise SampleShapeError(f"field {field.name!r}: expected {field}, got a null in a list")
        leaves = pc.fill_null(leaves, False if pa.types.is_boolean(leaves.type) else 0)
    numbers: NDArray[Any] = leaves.to_numpy(zero_copy_only=False)
    return numbers


def _variable(field: Field, column: pa.Array | None, length: int) -> tuple[NDArray[Any], pa.Array]:
    """Return per row the number of values (or bytes), and the values as large binaries."""
    if column is None:
        return np.zeros(length, np.uint32), binary_rows(np.empty((length, 0), dtype=np.uint8))
    if field.is_text:
        return _text(field, column)
    if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        _refuse(field, column)
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    rows = column.flatten()  # leaves out values that lie below null lists
    flat = Field(field.name, field.dtype, field.item_shape)
    if rows.null_count:
        raise SampleShapeError(f"field {field.name!r}: expected {field}, got a null in a list")
    values = TypedCodec(Schema((flat,))).encode_columns(
        {field.name: _values(flat, rows, len(rows))}
    )
    # From counts of values to byte offsets.
    ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]) * values.itemsize
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(values).view(np.uint8))]
    return lengths, pa.Array.from_buffers(pa.large_binary(), len(column), buffers)


def _text(field: Field, column: pa.Array) -> tuple[NDArray[Any], pa.Array]:
    kind = column.type
    is_str = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    if not (is_str if field.dtype == "str" else is_bytes):
        _refuse(field, column)
    try:
        # Checks offsets and UTF-8: Arrow reads neither when it opens a file.
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        raise SampleShapeError(f"field {field.name!r}: expected {field}, got {error}") from error
    data = pc.fill_null(column.cast(pa.large_binary()), b"")
    return pc.binary_length(data).to_numpy(zero_copy_only=False), data


def _refuse(field: Field, column: pa.Array) -> None:
    lists = "fixed_size_list" if field.is_fixed else "list"
    hint = f", which is a {lists}" if field.shape else ""
    raise SampleShapeError(
        f"field {field.name!r}: expected {field}{hint}, got a column of {column.type}"
    )

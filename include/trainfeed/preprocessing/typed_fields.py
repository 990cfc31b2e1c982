"""Records with typed fields: a column of structs ↔ records, and columns for every kind of source.

Sources whose records have fields of their own, such as files of columns or values behind a schema
registry, give a batch one more column, the last one, of structs with one child for each field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trainfeed.preprocessing.batch import json_columns
from trainfeed.preprocessing.column_types import TEXTS, is_of
from trainfeed.preprocessing.source_record import FIELDS

# --- A column of structs as the fields of single records


def iter_fields(column: pa.StructArray) -> Iterator[dict[str, Any] | None]:
    """Yield the fields of every row as name → Python value; None for a null struct.

    The values are those of ``to_pylist``, in a fraction of its time.
    """
    names = column.type.names
    rows: Iterator[dict[str, Any] | None] = (
        dict(zip(names, values, strict=True)) for values in _values_by_row(column)
    )
    if column.null_count:
        valid = column.is_valid().to_pylist()
        rows = (row if is_valid else None for row, is_valid in zip(rows, valid, strict=True))
    return rows


def _values_by_row(column: pa.StructArray) -> Iterator[tuple[Any, ...]]:
    if not column.type.num_fields:
        return iter([()] * len(column))
    return zip(*(_values(child) for child in column.flatten()), strict=True)


def _values(column: pa.Array) -> list[Any]:
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_float64(kind):
        # Through numpy in a tenth of the time of ``to_pylist``.
        numbers: list[Any] = pc.fill_null(column, 0).to_numpy(zero_copy_only=False).tolist()
        for row in np.flatnonzero(_is_null(column)) if column.null_count else ():
            numbers[row] = None
        return numbers
    values: list[Any] = column.to_pylist()
    return values


def _is_null(column: pa.Array) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return found


# --- The bytes of typed records, for accounts: those of their values, without what stores add


def row_bytes(column: pa.Array) -> NDArray[np.int64]:
    """Return the bytes of every value of a column, int64 of shape (n,); 0 for null.

    A number, a time or a bool has the bytes of its type, text (in UTF-8) and bytes their length, a
    list the sum of its items, a struct the sum of its fields.
    """
    kind = column.type
    if pa.types.is_struct(kind):
        total = np.zeros(len(column), np.int64)
        for child in column.flatten():
            total += row_bytes(child)
        return total
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        lengths = _lengths(pc.list_value_length(column))
        items = np.zeros(int(lengths.sum()) + 1, np.int64)
        np.cumsum(row_bytes(column.flatten()), out=items[1:])
        ends = np.cumsum(lengths)
        found: NDArray[np.int64] = items[ends] - items[ends - lengths]
        return found
    if pa.types.is_null(kind):
        return np.zeros(len(column), np.int64)
    try:
        width = 1 if pa.types.is_boolean(kind) else kind.bit_width // 8
    except ValueError:
        return _lengths(pc.binary_length(column))
    return (~_is_null(column)).astype(np.int64) * width


def _lengths(column: pa.Array) -> NDArray[np.int64]:
    found: NDArray[np.int64] = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    return found.astype(np.int64)


# --- Columns of the fields that a function names, from every kind of batch

# Whole numbers up to this one are exact as float64.
_EXACT: Final = 1 << 53
_MOST: Final = (1 << 63) - 1


def columns_of(
    batch: pa.RecordBatch, fields: Mapping[str, pa.DataType]
) -> tuple[NDArray[np.int64], pa.RecordBatch]:
    """Return fields of the records of a function's batch, whatever kind of source it is of.

    For a source whose records have typed fields, values are cast without loss. A record is *plain*
    if it has each of ``fields`` as a value that its type can hold, or null; a field that the source
    does not have makes no record plain. For other sources, this is ``json_columns`` of ``value``.
    A record that is not plain may still be valid: process it by itself, with ``iter_records``.

    Args:
        batch: The batch that the function got.
        fields: Name → type: integers of up to 64 bits, signed; float64, bool or utf8. Where the
            source has typed fields, also the very type of the field, such as a list.

    Returns:
        Row numbers of the plain records, ascending, int64 of shape (n,); and their fields, n rows.

    Raises:
        TypeError: A type is not supported.
    """
    if FIELDS not in batch.schema.names:
        return json_columns(batch.column("value"), fields)
    column, schema = batch.column(FIELDS), pa.schema(list(fields.items()))
    plain = ~_is_null(column) if column.null_count else None
    found: list[pa.Array] = []
    for name, wanted in fields.items():
        values, fitting = _cast(_child(column, name), wanted, len(column))
        found.append(values)
        if fitting is not None:
            plain = fitting if plain is None else plain & fitting
    columns = pa.RecordBatch.from_arrays(found, schema=schema)
    if plain is None or plain.all():
        return np.arange(len(column)), columns
    rows = np.flatnonzero(plain)
    return rows, columns.take(pa.array(rows))


def _child(column: pa.StructArray, name: str) -> pa.Array | None:
    """Return a field with the nulls of its structs; None if there is no such field."""
    number = column.type.get_field_index(name)
    return None if number < 0 else column.flatten()[number]


def _cast(
    column: pa.Array | None, wanted: pa.DataType, length: int
) -> tuple[pa.Array, NDArray[np.bool_] | None]:
    """Return the values as ``wanted``, and which of them fit; None if all do."""
    if column is not None and column.type.equals(wanted):
        return column, None
    if column is None or not _is_castable(column.type, wanted):
        if column is not None:
            _require_supported(wanted)
        return pa.nulls(length, wanted), np.zeros(length, dtype=bool)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        return column.cast(wanted), None
    except pa.ArrowInvalid:
        fits = pc.fill_null(_within(column, wanted), fill_value=True)
        values = pc.if_else(fits, column, pa.scalar(None, column.type)).cast(wanted)
        return values, fits.to_numpy(zero_copy_only=False)


def _within(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return which whole numbers a type of numbers can hold."""
    if pa.types.is_floating(wanted):
        low, high = -_EXACT, _EXACT
    else:
        limits = np.iinfo(wanted.to_pandas_dtype())
        low, high = int(limits.min), int(limits.max)
    held = np.iinfo(column.type.to_pandas_dtype())
    low, high = max(low, int(held.min)), min(high, int(held.max))
    return pc.and_(
        pc.greater_equal(column, pa.scalar(low, column.type)),
        pc.less_equal(column, pa.scalar(high, column.type)),
    )


def _is_castable(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether values of a type may be values of the wanted type, one of ``json_columns``."""
    if pa.types.is_null(found):
        return _is_supported(wanted)
    if pa.types.is_dictionary(found):
        found = found.value_type
    if _is_whole(wanted):
        return bool(pa.types.is_integer(found))
    if pa.types.is_float64(wanted):
        return bool(pa.types.is_integer(found) or pa.types.is_floating(found))
    if pa.types.is_boolean(wanted):
        return bool(pa.types.is_boolean(found))
    return pa.types.is_string(wanted) and is_of(found, TEXTS)


def _is_whole(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) and np.iinfo(kind.to_pandas_dtype()).max <= _MOST


def _is_supported(kind: pa.DataType) -> bool:
    tests = (pa.types.is_float64, pa.types.is_boolean, pa.types.is_string)
    return _is_whole(kind) or any(test(kind) for test in tests)


def _require_supported(wanted: pa.DataType) -> None:
    """Refuse a type that no kind of source can give."""
    if not _is_supported(wanted):
        raise TypeError(
            "expected integers of up to 64 bits, float64, bool or utf8, or the type of the field"
            f" in the source, got {wanted}"
        )

"""Columns of Parquet and Arrow files ↔ fields of typed samples.

====================== ===============================================
field                  column
====================== ===============================================
bool, int8 … float64   the same
bytes, str             binary, string
shape (k,)             fixed_size_list[k]
shape (k, m)           fixed_size_list[k] of fixed_size_list[m]
shape (None, …)        list of the rest
optional               nullable
====================== ===============================================

Files that are written here carry the schema as JSON in their metadata, ``trainfeed.schema``, so it
comes back exactly. Other files are read by their columns: further, a dictionary is what its values
are, a list is (None,), ``large_`` types are as their small ones, a date32 is an int32 of days, and
a timestamp or time an int64 in its own unit. A column that may hold nulls is optional, unless a
Parquet file's statistics say that it holds none. Everything else, such as decimals and structs, is
refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Set
from typing import Final

import numpy as np
import pyarrow as pa

from trainfeed.errors import ConfigError, FormatError
from trainfeed.samples import Field, Schema

__all__ = ["arrow_schema", "schema_of"]

_METADATA: Final = b"trainfeed.schema"
_TEXTS: Final = {"bytes": pa.binary(), "str": pa.string()}


def arrow_schema(schema: Schema) -> pa.Schema:
    """Return the columns for samples, with the schema itself in the metadata."""
    columns = [pa.field(each.name, _type_of(each), nullable=each.optional) for each in schema]
    return pa.schema(columns, metadata={_METADATA: json.dumps(schema.to_json()).encode()})


def _type_of(field: Field) -> pa.DataType:
    kind = _TEXTS.get(field.dtype) or pa.from_numpy_dtype(np.dtype(field.dtype))
    for length in reversed(field.shape):
        # A list of them may vary, and its items are never null.
        item = pa.field("item", kind, nullable=False)
        kind = pa.list_(item) if length is None else pa.list_(item, length)
    return kind


def schema_of(columns: pa.Schema, without_nulls: Callable[[], Set[str]]) -> Schema:
    """Return the fields for the columns of a file.

    Args:
        columns: The columns.
        without_nulls: Gives the names of those that are known to hold no null. Not called for a
            file that carries its schema.

    Raises:
        ConfigError: A column has a type that samples have not.
        FormatError: The metadata hold no schema, or that of other columns.
    """
    stored = (columns.metadata or {}).get(_METADATA)
    if stored is not None:
        try:
            schema = Schema.from_json(json.loads(stored))
        except ValueError as error:
            raise FormatError(f"the metadata hold no schema: {error}") from error
        expected = arrow_schema(schema)
        if not expected.equals(columns, check_metadata=False):
            raise FormatError(
                f"the metadata speak of {expected.names}, the file has {columns.names}"
            )
        return schema
    names = without_nulls()
    return Schema(tuple(_field_of(column, names) for column in columns))


def _field_of(column: pa.Field, without_nulls: Set[str]) -> Field:
    kind, shape = column.type, []
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    while (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    ):
        shape.append(kind.list_size if pa.types.is_fixed_size_list(kind) else None)
        kind = kind.value_type
    dtype = _dtype_of(kind)
    if dtype is None or None in shape[1:] or (shape and dtype in _TEXTS):
        raise ConfigError(
            f"column {column.name!r}: samples have no {column.type}; cast or leave it out first"
        )
    optional = column.nullable and column.name not in without_nulls
    return Field(column.name, dtype, tuple(shape), optional)


def _dtype_of(kind: pa.DataType) -> str | None:
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return "bool" if pa.types.is_boolean(kind) else str(np.dtype(kind.to_pandas_dtype()))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "str"
    if (
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
    ):
        return "bytes"
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return "int32"
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind) or pa.types.is_date64(kind):
        return "int64"
    return None

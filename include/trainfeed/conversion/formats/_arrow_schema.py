"""Columns of Parquet and Arrow files ↔ fields of typed samples.

The columns of a field are those of ``trainfeed.samples.arrow``.
Files that this package writes have the schema as JSON in their metadata, ``trainfeed.schema``, and
are read with exactly that schema. In other files the types of the columns decide. Besides the
table there: a dictionary or run-end encoding counts as the type of its values, a list has the shape
(None,), ``large_`` types and views count as the small ones, a date32 becomes an int32 of days, and
a timestamp or time becomes an int64 in its own unit. A nullable column is optional, unless the
statistics of a Parquet file state that it has no nulls. All other types, such as decimals and
structs, are refused, unless ``ColumnOptions`` turn their parts into fields, or the column into
JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from trainfeed.conversion.formats._arrow_json import (
    is_binary,
    is_list,
    is_text,
    is_time,
    require_json,
)
from trainfeed.errors import ConfigError, FormatError
from trainfeed.samples import Field, Schema
from trainfeed.samples.arrow import METADATA, arrow_schema

__all__ = ["ColumnOptions", "Place", "TableColumn", "columns_of"]

Place: TypeAlias = tuple[int, ...]

_TEXTS: Final = ("bytes", "str")


@dataclass(frozen=True)
class ColumnOptions:
    """Conversion of columns that have no matching field.

    Attributes:
        flatten: Names of structs whose parts become fields: ``image`` with ``bytes`` and ``path``
            becomes ``image.bytes`` and ``image.path``. Structs inside them are flattened too.
        as_json: Names of columns of any type, and of parts of flattened structs, that become
            fields of JSON text, in the form of ``trainfeed.conversion.formats._arrow_json``.
    """

    flatten: tuple[str, ...] = ()
    as_json: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableColumn:
    """One field of the samples, and its column in the table.

    Attributes:
        field: The field.
        place: Number of the column, then of the part of the struct, and so on inwards.
        kind: Type of the column.
        is_json: Whether values become JSON text.
    """

    field: Field
    place: Place
    kind: pa.DataType
    is_json: bool = False

    @property
    def is_time(self) -> bool:
        """Whether the values are dates or times, in the unit of the column."""
        return is_time(self.kind) and not self.is_json

    def of(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the values of the field in a batch; parts of a null struct are null."""
        column, *parts = self.place
        values = batch.column(column)
        for part in parts:
            values = values.flatten()[part]
        return values


def columns_of(
    columns: pa.Schema, nulls: Callable[[], Set[Place] | None], options: ColumnOptions
) -> tuple[TableColumn, ...]:
    """Return the fields for the columns of a file.

    Args:
        columns: The columns.
        nulls: Function that returns the places of columns (for structs, of their parts) that may
            hold a null; None if unknown. Not called for a file that has its schema.
        options: How columns without a matching field are converted.

    Raises:
        ConfigError: A column has a type that samples do not have, or an option names no column.
        FormatError: The metadata have no valid schema, or one that does not match the columns.
    """
    stored = (columns.metadata or {}).get(METADATA)
    if stored is not None:
        if options != ColumnOptions():
            raise ConfigError(
                "expected no columns to flatten or to turn into JSON for a file that carries a"
                " schema of trainfeed; leave these options out"
            )
        schema = _stored_schema(columns, stored)
        return tuple(
            TableColumn(field, (number,), columns.field(number).type)
            for number, field in enumerate(schema)
        )
    wanted = _Wanted(options, nulls())
    found = tuple(
        each for number, column in enumerate(columns) for each in wanted.fields(column, (number,))
    )
    wanted.require_used(columns.names)
    return found


def _stored_schema(columns: pa.Schema, stored: bytes) -> Schema:
    try:
        schema = Schema.from_json(json.loads(stored))
    except ValueError as error:
        raise FormatError(f"the metadata hold no schema: {error}") from error
    expected = arrow_schema(schema)
    if not expected.equals(columns, check_metadata=False):
        raise FormatError(
            f"the metadata of the file describe the columns {expected.names}, the file has"
            f" {columns.names}"
        )
    return schema


class _Wanted:
    """Makes fields from columns, and notes the names in the options that were found."""

    def __init__(self, options: ColumnOptions, nulls: Set[Place] | None) -> None:
        self._options = options
        self._nulls = nulls
        self._used: set[str] = set()

    def fields(self, column: pa.Field, place: Place) -> Iterator[TableColumn]:
        """Yield the fields of a column."""
        name, kind = column.name, column.type
        if name in self._options.as_json:
            self._used.add(name)
            require_json(name, kind)
            field = Field(name, "str", (), self._optional(column, place))
            yield TableColumn(field, place, kind, is_json=True)
        elif pa.types.is_struct(kind) and name in self._options.flatten:
            self._used.add(name)
            yield from self._parts(column, place)
        else:
            dtype, shape = _dtype_and_shape(name, kind)
            field = Field(name, dtype, shape, self._optional(column, place))
            yield TableColumn(field, place, kind)

    def _parts(self, column: pa.Field, place: Place) -> Iterator[TableColumn]:
        for number in range(column.type.num_fields):
            part = column.type.field(number)
            name, nullable = f"{column.name}.{part.name}", column.nullable or part.nullable
            named = pa.field(name, part.type, nullable)
            if pa.types.is_struct(part.type) and name not in self._options.as_json:
                yield from self._parts(named, (*place, number))
            else:
                yield from self.fields(named, (*place, number))

    def require_used(self, names: list[str]) -> None:
        """Check that every name in the options was found."""
        unused = {*self._options.flatten, *self._options.as_json} - self._used
        if unused:
            raise ConfigError(
                f"expected structs to flatten and columns to make JSON, got {sorted(unused)}; the"
                f" file has {names}"
            )

    def _optional(self, column: pa.Field, place: Place) -> bool:
        if self._nulls is None or not column.nullable:
            return bool(column.nullable)
        return any(each[: len(place)] == place for each in self._nulls)


def _dtype_and_shape(name: str, column: pa.DataType) -> tuple[str, tuple[int | None, ...]]:
    kind, shape = column, list[int | None]()
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        kind = kind.value_type
    while is_list(kind):
        shape.append(kind.list_size if pa.types.is_fixed_size_list(kind) else None)
        kind = kind.value_type
    dtype = _dtype_of(kind)
    if dtype is None or None in shape[1:] or (shape and dtype in _TEXTS):
        remedy = _json_remedy(name, column)
        if pa.types.is_struct(column):
            first = column.field(0).name if column.num_fields else "…"
            remedy = f"--flatten {name} makes the fields {name}.{first}, …; {remedy}"
        raise ConfigError(
            f"column {name!r}: a sample cannot hold {column}; {remedy}cast the column or leave it"
            " out first"
        )
    return dtype, tuple(shape)


def _json_remedy(name: str, column: pa.DataType) -> str:
    try:
        require_json(name, column)
    except ConfigError:
        return ""
    return f"--json-columns {name} makes JSON text of it; or "


def _dtype_of(kind: pa.DataType) -> str | None:
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return "bool" if pa.types.is_boolean(kind) else str(np.dtype(kind.to_pandas_dtype()))
    if is_text(kind):
        return "str"
    if is_binary(kind):
        return "bytes"
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return "int32"
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind) or pa.types.is_date64(kind):
        return "int64"
    return None

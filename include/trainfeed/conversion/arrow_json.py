"""Values of any Arrow column as JSON text."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

import numpy as np
import pyarrow as pa

from trainfeed.errors import ConfigError, FormatError
from trainfeed.preprocessing.column_types import BINARIES, LISTS, TEXTS, is_of

_INT32: Final = (pa.types.is_date32, pa.types.is_time32)
_INT64: Final = (
    pa.types.is_timestamp,
    pa.types.is_time64,
    pa.types.is_date64,
    pa.types.is_duration,
)
_SCALARS: Final = (
    pa.types.is_null,
    pa.types.is_boolean,
    pa.types.is_integer,
    *TEXTS,
    *_INT32,
    *_INT64,
)
_LISTS: Final = (*LISTS, pa.types.is_fixed_size_list)


def require_json(name: str, kind: pa.DataType) -> None:
    """Check that a column can be converted to JSON.

    Raises:
        ConfigError: The type, or one inside it, has no form in JSON.
    """
    known = (*_SCALARS, *BINARIES, pa.types.is_floating, pa.types.is_decimal)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        require_json(name, kind.value_type)
    elif is_of(kind, (*_LISTS, pa.types.is_struct, pa.types.is_map)):
        for number in range(kind.num_fields):
            require_json(name, kind.field(number).type)
    elif not is_of(kind, known):
        raise ConfigError(f"column {name!r}: JSON has no form for {kind}; leave it out first")


def is_text(kind: pa.DataType) -> bool:
    """Return whether a column holds text, in any layout."""
    return is_of(kind, TEXTS)


def is_binary(kind: pa.DataType) -> bool:
    """Return whether a column holds bytes, in any layout."""
    return is_of(kind, BINARIES)


def is_list(kind: pa.DataType) -> bool:
    """Return whether a column holds lists, in any layout."""
    return is_of(kind, _LISTS)


def is_time(kind: pa.DataType) -> bool:
    """Return whether a column holds dates, times or spans of time, in a unit of its own."""
    return is_of(kind, (*_INT32, *_INT64))


def json_texts(column: pa.Array) -> list[str | None]:
    """Return the values of a column as JSON; None for nulls.

    Raises:
        FormatError: An object would have a key twice.
    """
    present = column.is_valid().to_pylist()
    return [
        json.dumps(value, ensure_ascii=False, separators=(",", ":")) if is_there else None
        for value, is_there in zip(_values(column), present, strict=True)
    ]


def plain(column: pa.Array) -> pa.Array:
    """Return a column as plain values: dictionaries, runs and views become what they stand for.

    Times become numbers in the unit of the column.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_run_end_encoded(column.type):
        column = pa.compute.run_end_decode(column)
    if pa.types.is_string_view(column.type):
        return column.cast(pa.large_string())
    if pa.types.is_binary_view(column.type):
        return column.cast(pa.large_binary())
    if is_of(column.type, (pa.types.is_list_view, pa.types.is_large_list_view)):
        return _as_lists(column)
    if is_of(column.type, _INT32):
        return column.view(pa.int32())
    return column.view(pa.int64()) if is_of(column.type, _INT64) else column


def _as_lists(column: pa.Array) -> pa.Array:
    """Return lists for views of lists; a cast leaves empty ones without values."""
    lengths = pa.compute.fill_null(pa.compute.list_value_length(column), 0).to_numpy()
    ends = np.concatenate([[0], np.cumsum(lengths)])
    return pa.LargeListArray.from_arrays(
        pa.array(ends, pa.int64()), column.flatten(), mask=column.is_null()
    )


def _values(column: pa.Array) -> list[Any]:
    column = plain(column)
    kind = column.type
    if pa.types.is_struct(kind):
        return _objects(column)
    if pa.types.is_map(kind):
        return _maps(column)
    if is_of(kind, _LISTS):
        return _split(column, _values(column.flatten()))
    convert: Callable[[Any], Any] | None = None
    if pa.types.is_floating(kind):
        convert = _number if pa.types.is_float64(kind) else _short_number
    elif is_of(kind, BINARIES):
        convert = _base64
    elif pa.types.is_decimal(kind):
        convert = str
    values: list[Any] = column.to_pylist()
    return [convert(each) if convert and each is not None else each for each in values]


def _objects(column: pa.StructArray) -> list[Any]:
    names = [column.type.field(number).name for number in range(column.type.num_fields)]
    if len(set(names)) < len(names):
        raise FormatError(f"expected different names in a struct, got {names}")
    parts = [_values(part) for part in column.flatten()]
    rows: Iterator[Any] = zip(*parts, strict=True) if parts else iter([()] * len(column))
    present = column.is_valid().to_pylist()
    return [
        dict(zip(names, row, strict=True)) if is_there else None
        for row, is_there in zip(rows, present, strict=True)
    ]


def _maps(column: pa.MapArray) -> list[Any]:
    kind = column.type
    pairs = column.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
    rows = _split(pairs, [tuple(pair.values()) for pair in _values(pairs.flatten())])
    if not is_text(kind.key_type):
        return rows
    return [None if row is None else _object(row) for row in rows]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise FormatError(f"a map has a key twice: {[key for key, _ in pairs]!r:.200}")
    return found


def _split(column: pa.Array, values: list[Any]) -> list[Any]:
    """Return the lists of a column, given the values of all lists in sequence."""
    rest = iter(values)
    if pa.types.is_fixed_size_list(column.type):
        size = column.type.list_size
        lengths = [size if each else None for each in column.is_valid().to_pylist()]
    else:
        lengths = pa.compute.list_value_length(column).to_pylist()
    return [None if length is None else list(islice(rest, length)) for length in lengths]


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _short_number(value: float) -> float | str:
    # Via the shortest digits of a float32, so that 0.1 stays 0.1. Every float16 is a float32.
    return _number(float(str(np.float32(value))))


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()

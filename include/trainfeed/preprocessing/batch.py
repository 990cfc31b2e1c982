"""Batch mode: JSON values as columns, and rows as records."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trainfeed.core.reading_rules import NEWEST, ReadingRules
from trainfeed.preprocessing.source_record import (
    FIELDS,
    Record,
    TypedRecord,
    field_reader,
    record_type,
    whole_between,
)

# --- Attributes of many objects as columns: a large part of the time of reading JSON in batches

_ATTRIBUTE: Final = "a{}"
_Values = Callable[[list[Any]], list[Any]]
# An attribute whose name stands in the code is read in half the time that ``attrgetter`` takes.
_FIRST: Final[Sequence[_Values]] = (
    lambda objects: [each.a0 for each in objects],
    lambda objects: [each.a1 for each in objects],
    lambda objects: [each.a2 for each in objects],
    lambda objects: [each.a3 for each in objects],
    lambda objects: [each.a4 for each in objects],
    lambda objects: [each.a5 for each in objects],
    lambda objects: [each.a6 for each in objects],
    lambda objects: [each.a7 for each in objects],
    lambda objects: [each.a8 for each in objects],
    lambda objects: [each.a9 for each in objects],
    lambda objects: [each.a10 for each in objects],
    lambda objects: [each.a11 for each in objects],
    lambda objects: [each.a12 for each in objects],
    lambda objects: [each.a13 for each in objects],
    lambda objects: [each.a14 for each in objects],
    lambda objects: [each.a15 for each in objects],
    lambda objects: [each.a16 for each in objects],
    lambda objects: [each.a17 for each in objects],
    lambda objects: [each.a18 for each in objects],
    lambda objects: [each.a19 for each in objects],
)

# Kind and size in numpy → code in ``struct``.
_CODES: Final = {
    "i1": "b",
    "i2": "h",
    "i4": "i",
    "i8": "q",
    "u1": "B",
    "u2": "H",
    "u4": "I",
    "u8": "Q",
}


def attributes(count: int) -> list[str]:
    """Return the names of the first ``count`` attributes."""
    return [_ATTRIBUTE.format(number) for number in range(count)]


def column_of(objects: list[Any], number: int, arrow: pa.DataType) -> pa.Array:
    """Return attribute ``number`` of objects as an array of ``arrow``; None becomes null.

    Raises:
        pyarrow.ArrowInvalid: A value does not fit into ``arrow``.
    """
    values = _values(objects, number)
    if pa.types.is_integer(arrow):
        dtype = np.dtype(arrow.to_pandas_dtype())
        try:
            # Without None: in a third of the time of the conversion below, which allows it.
            packed = struct.pack(f"={len(values)}{_CODES[dtype.str[1:]]}", *values)
        except struct.error:
            return pa.array(values, arrow)
        return pa.Array.from_buffers(arrow, len(values), [None, pa.py_buffer(packed)])
    return pa.array(values, arrow)


def _values(objects: list[Any], number: int) -> list[Any]:
    if number < len(_FIRST):
        return _FIRST[number](objects)
    return list(map(attrgetter(_ATTRIBUTE.format(number)), objects))


# --- Functions for batch mode: JSON values as columns, rows as records

_MOST: Final = (1 << 63) - 1
_RULES: Final = b"trainfeed.reading_rules"
_WIDTHS: Final = {pa.binary(): np.int32, pa.large_binary(): np.int64}
# Rows that are parsed before their columns are made: their objects fit the processor's cache.
_BLOCK_ROWS: Final = 1024
_KINDS: Final = {bool: pa.types.is_boolean, float: pa.types.is_float64, str: pa.types.is_string}


def json_columns(
    values: pa.Array, fields: Mapping[str, pa.DataType]
) -> tuple[NDArray[np.int64], pa.RecordBatch]:
    """Parse values that are JSON objects.

    A value is *plain* if it is one JSON object, in UTF-8, and has each of ``fields``, as a number
    or text of its type, or null. For plain values, the columns have the values of ``json.loads``
    (numbers of more than 4300 digits in other fields, which Python refuses, are accepted). A value
    that is not plain may still be valid: process it by itself.

    Args:
        values: Binary array.
        fields: Name → type: integers of up to 64 bits, signed; float64, bool or utf8. Other names
            in the objects are ignored. Reading is fastest in the order of the objects.

    Returns:
        Row numbers of the plain values, ascending, int64 of shape (n,); and their fields, n rows.

    Raises:
        TypeError: A type is not supported.
    """
    read, schema = _reader(tuple(fields.items())), pa.schema(list(fields.items()))
    rows = [np.empty(0, dtype=np.int64)]
    columns = [[pa.array([], arrow)] for arrow in schema.types]
    for start in range(0, len(values), _BLOCK_ROWS):
        found, objects = _objects(values.slice(start, _BLOCK_ROWS), read)
        rows.append(found + start)
        for number, (parts, arrow) in enumerate(zip(columns, schema.types, strict=True)):
            parts.append(column_of(objects, number, arrow))
    whole = [pa.concat_arrays(parts) for parts in columns]
    return np.concatenate(rows), pa.RecordBatch.from_arrays(whole, schema=schema)


def iter_records(batch: pa.RecordBatch, rows: Iterable[int]) -> Iterator[tuple[int, Record]]:
    """Yield rows of the function's batch as records, each with its number."""
    picked = np.fromiter(rows, dtype=np.int64)
    kind = record_type(_rules_of(batch.schema))
    is_typed = FIELDS in batch.schema.names
    for row in batch.take(pa.array(picked)).to_pylist():
        headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
        record = kind(
            row["value"], row["key"], row["timestamp"], headers, row["source"], row["offset"]
        )
        yield row["_row"], TypedRecord.of(record, row[FIELDS]) if is_typed else record


def told_rules(rules: ReadingRules) -> dict[str, str]:
    """Return the metadata by which a batch tells ``iter_records`` its reading rules."""
    return {} if rules is NEWEST else {_RULES.decode(): str(int(rules))}


def _rules_of(schema: pa.Schema) -> ReadingRules:
    return ReadingRules(int((schema.metadata or {}).get(_RULES, NEWEST)))


@lru_cache
def _reader(fields: tuple[tuple[str, pa.DataType], ...]) -> Callable[[bytes], Any]:
    kinds = {name: _kind(arrow) | None for name, arrow in fields}
    return field_reader(kinds, attributes(len(fields)))


def _kind(arrow: pa.DataType) -> Any:
    """Return the type that a field of a JSON object must have for a column of ``arrow``."""
    if pa.types.is_integer(arrow):
        limits = np.iinfo(arrow.to_pandas_dtype())
        if limits.max <= _MOST:
            return whole_between(int(limits.min), int(limits.max))
    for kind, is_kind in _KINDS.items():
        if is_kind(arrow):
            return kind
    raise TypeError(f"expected integers of up to 64 bits, float64, bool or utf8, got {arrow}")


def _objects(values: pa.Array, read: Callable[[bytes], Any]) -> tuple[NDArray[np.int64], list[Any]]:
    """Return the row numbers of plain values, and their parsed objects."""
    texts = values.to_pylist()
    try:
        # The usual case: all values are plain.
        if _is_ascii(values):
            return np.arange(len(texts)), list(map(read, texts))
    except (TypeError, ValueError, RecursionError):
        pass
    found = [(row, part) for row, text in enumerate(texts) if (part := _object(text, read))]
    return np.array([row for row, _ in found], dtype=np.int64), [part for _, part in found]


def _is_ascii(values: pa.Array) -> bool:
    """Return whether all bytes are known to be ASCII, by one test of the whole buffer."""
    if values.type not in _WIDTHS:
        return False
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, _WIDTHS[values.type])[values.offset :]
    # As int8, bytes above 127 are negative: the minimum shows whether there is one.
    signed = np.frombuffer(data or b"", np.int8)[ends[0] : ends[len(values)]]
    return int(signed.min(initial=0)) >= 0


def _object(text: bytes | None, read: Callable[[bytes], Any]) -> Any:
    try:
        if text is None or not (text.isascii() or text.decode()):
            return None
        return read(text)
    except (ValueError, RecursionError):
        return None

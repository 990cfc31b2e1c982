"""What functions in batch mode are written with: JSON values as columns, rows as records.

Both ways of a data set can share their rules: columns decide about plain rows, and whatever is
unusual goes through the function for single records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
from numpy.typing import NDArray

from trainfeed.build._record import Record

__all__ = ["iter_records", "json_columns"]

_OPEN, _CLOSE = ord("{"), ord("}")
_ASCII_END: Final = 0x80
# Rows of a block that does not parse are halved down to this; the rest is not plain.
_LEAST_ROWS: Final = 8


def json_columns(
    values: pa.Array, fields: Mapping[str, pa.DataType]
) -> tuple[NDArray[np.int64], pa.RecordBatch]:
    """Parse values that are flat JSON objects.

    A value is *plain* when it is one JSON object without objects in it, and has every one of
    ``fields`` once, as a number or text of that type, or null. Of plain values the columns say what
    ``json.loads`` says. The others may be anything, also valid: look at them one by one.

    Args:
        values: Binary array.
        fields: Name to type: integers, floats, bool or utf8. Other names in the objects are
            ignored.

    Returns:
        Numbers of the plain values, ascending; and their fields, a row for each.
    """
    flat = _flat(values)
    rest = values if len(flat) == len(values) else values.take(pa.array(flat))
    pieces = list(_parsed(rest, flat, fields))
    schema = pa.schema(list(fields.items()))
    table = pa.Table.from_batches([b for _, b in pieces], schema).combine_chunks()
    numbers = np.concatenate([np.empty(0, np.int64), *(numbers for numbers, _ in pieces)])
    if not len(table):
        return numbers, pa.RecordBatch.from_pylist([], schema)
    return numbers, table.to_batches()[0]


def iter_records(batch: pa.RecordBatch, rows: Iterable[int]) -> Iterator[tuple[int, Record]]:
    """Yield some rows of the batch that a function got, each with its number, as records."""
    picked = np.fromiter(rows, dtype=np.int64)
    for row in batch.take(pa.array(picked)).to_pylist():
        headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
        yield (
            row["_row"],
            Record(
                row["value"], row["key"], row["timestamp"], headers, row["source"], row["offset"]
            ),
        )


def _text_of(values: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the bytes of binary values, and where they begin and end; nulls are empty."""
    _, ends, data = values.buffers()
    width = np.int64 if pa.types.is_large_binary(values.type) else np.int32
    edges = np.frombuffer(ends, width)[values.offset : values.offset + len(values) + 1]
    text = np.frombuffer(data if data is not None else b"", np.uint8)[edges[0] : edges[-1]]
    return text, (edges - edges[0]).astype(np.int64)


def _flat(values: pa.Array) -> NDArray[np.int64]:
    """Return which values begin and end with the only braces that they have, in UTF-8."""
    text, edges = _text_of(values)
    if not len(text):
        return np.empty(0, dtype=np.int64)
    starts, lasts = edges[:-1], edges[1:] - 1
    good = (np.diff(edges) >= 2) & (text[np.minimum(starts, len(text) - 1)] == _OPEN)
    good &= text[np.maximum(lasts, 0)] == _CLOSE
    good &= _brace_free(text, starts, good, _OPEN) & _brace_free(text, starts, good, _CLOSE)
    if int(text.max()) >= _ASCII_END:
        good &= _is_utf8(values)
    return np.flatnonzero(good)


def _brace_free(
    text: NDArray[np.uint8], starts: NDArray[np.int64], good: NDArray[np.bool_], brace: int
) -> NDArray[np.bool_]:
    """Return which values have at most one ``brace``."""
    found = text == brace
    # Counting is faster than finding, and mostly settles it.
    if good.all() and np.count_nonzero(found) == len(good):
        return good
    owners = np.searchsorted(starts, np.flatnonzero(found), side="right") - 1
    counts: NDArray[np.intp] = np.bincount(owners, minlength=len(starts))
    return counts <= 1


def _is_utf8(values: pa.Array) -> NDArray[np.bool_]:
    try:
        values.cast(pa.utf8())
    except pa.ArrowInvalid:
        return np.array([_decodes(value) for value in values.to_pylist()], dtype=bool)
    return np.ones(len(values), dtype=bool)


def _decodes(value: bytes | None) -> bool:
    try:
        return value is not None and value.decode() is not None
    except UnicodeDecodeError:
        return False


def _parsed(
    values: pa.Array, rows: NDArray[np.int64], fields: Mapping[str, pa.DataType]
) -> Iterator[tuple[NDArray[np.int64], pa.RecordBatch]]:
    """Yield row numbers and columns of values that parse, in order."""
    if not len(rows):
        return
    columns = _parse(values, fields)
    if columns is not None:
        whole = _with_all_keys(values, columns)
        if whole.all():
            yield rows, columns
        else:
            yield rows[whole], columns.filter(pa.array(whole))
    elif len(rows) > _LEAST_ROWS:
        half = len(rows) // 2
        yield from _parsed(values.slice(0, half), rows[:half], fields)
        yield from _parsed(values.slice(half), rows[half:], fields)


def _parse(values: pa.Array, fields: Mapping[str, pa.DataType]) -> pa.RecordBatch | None:
    lists = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    lines = pc.binary_join(lists, b"\n").buffers()[2]
    schema = pa.schema(list(fields.items()))
    try:
        table = pyarrow.json.read_json(
            pa.BufferReader(lines),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=lines.size + 1),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="ignore"
            ),
        )
    except pa.ArrowException:
        return None
    # A line end cannot be inside of an object, because none of its strings may hold one; so with
    # one object per value the rows are those of the values.
    return table.combine_chunks().to_batches()[0] if len(table) == len(values) else None


def _with_all_keys(values: pa.Array, columns: pa.RecordBatch) -> NDArray[np.bool_]:
    """Return which rows have every key: the parser takes one that is missing for a null."""
    whole = np.ones(len(values), dtype=bool)
    for name, column in zip(columns.schema.names, columns.columns, strict=True):
        if not column.null_count:
            continue
        nulls = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))
        # Only a key can stand in quotes before a colon. Written in another way it is not found,
        # and the row is not plain.
        key = f'"{name}":'.encode()
        found = pc.match_substring(values.take(pa.array(nulls)), key)
        whole[nulls] = found.to_numpy(zero_copy_only=False)
    return whole

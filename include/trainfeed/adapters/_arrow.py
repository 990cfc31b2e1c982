"""Batches as Arrow record batches."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trainfeed.adapters._batches import Batches, marks_padding, named, schema_of
from trainfeed.samples import Field, Schema, absent_rows

__all__ = ["record_batches"]


def record_batches(loader: Batches, schema: Schema | None) -> pa.RecordBatchReader:
    """Return a reader over one pass of a loader."""
    fields = schema_of(loader, schema)
    marks = marks_padding(loader)
    target = pa.schema([pa.field(f.name, _type(f), nullable=f.optional) for f in fields])
    if marks:
        target = target.append(pa.field("valid", pa.bool_(), nullable=False))

    def batches() -> Iterator[pa.RecordBatch]:
        batch: Any
        for batch in loader:
            by_name = named(batch, fields)
            columns = [_column(field, by_name[field.name]) for field in fields]
            columns += [pa.array(batch.valid)] if marks else []
            yield pa.RecordBatch.from_arrays(columns, schema=target)

    return pa.RecordBatchReader.from_batches(target, batches())


def _type(field: Field) -> pa.DataType:
    if field.is_text:
        return pa.large_string() if field.dtype == "str" else pa.large_binary()
    value = pa.from_numpy_dtype(field.values_dtype)
    if field.item_shape:
        value = pa.list_(value, math.prod(field.item_shape))
    return value if field.is_fixed else pa.large_list(value)


def _column(field: Field, values: NDArray[Any]) -> pa.Array:
    if field.is_text:
        return pa.array(values.tolist(), _type(field))
    if field.is_fixed:
        return _fixed(field, values)
    nothing = np.empty((0, *field.item_shape), field.values_dtype)
    runs = [nothing if run is None else run for run in values]
    flat = _lists(field, np.concatenate([nothing, *runs]))
    offsets = np.cumsum([0, *map(len, runs)])
    absent = np.array([run is None for run in values], bool)
    return pa.LargeListArray.from_arrays(offsets, flat, mask=pa.array(absent))


def _fixed(field: Field, values: NDArray[Any]) -> pa.Array:
    if not isinstance(values, np.ma.MaskedArray):
        return _lists(field, values)
    absent = absent_rows(values)
    if not field.item_shape:
        return pa.array(values.data, mask=absent)
    flat = pa.array(values.data.reshape(-1))
    return pa.FixedSizeListArray.from_arrays(
        flat, math.prod(field.item_shape), mask=pa.array(absent)
    )


def _lists(field: Field, values: NDArray[Any]) -> pa.Array:
    """Return ``(n, *S)`` numbers as n fixed-size lists, a shape of more dimensions flattened."""
    flat = pa.array(values.reshape(-1))
    if not field.item_shape:
        return flat
    return pa.FixedSizeListArray.from_arrays(flat, math.prod(field.item_shape))

"""Batches as Arrow record batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trainfeed.adapters.passes import Batches, marks_padding, named, schema_of
from trainfeed.errors import SampleShapeError
from trainfeed.samples import Field, Schema, absent_rows
from trainfeed.samples.arrow import arrow_schema, arrow_type


def record_batches(loader: Batches, schema: Schema | None) -> pa.RecordBatchReader:
    """Return a reader over one pass of a loader."""
    fields = schema_of(loader, schema)
    marks = marks_padding(loader)
    target = arrow_schema(fields)
    if marks:
        # With a column that is no field the schema in the metadata would be another one.
        target = target.append(pa.field("valid", pa.bool_(), nullable=False)).remove_metadata()

    def batches() -> Iterator[pa.RecordBatch]:
        batch: Any
        for batch in loader:
            by_name = named(batch, fields)
            columns = [_column(field, by_name[field.name]) for field in fields]
            columns += [pa.array(batch.valid)] if marks else []
            yield pa.RecordBatch.from_arrays(columns, schema=target)

    return pa.RecordBatchReader.from_batches(target, batches())


def _column(field: Field, values: NDArray[Any]) -> pa.Array:
    kind = arrow_type(field)
    if field.is_text:
        return _text(field, values, kind)
    if field.is_fixed:
        return _fixed(values, kind)
    nothing = np.empty((0, *field.item_shape), field.values_dtype)
    runs = [nothing if run is None else run for run in values]
    items = _nested(np.concatenate([nothing, *runs]), kind.value_type)
    offsets = pa.array(np.cumsum([0, *map(len, runs)]), pa.int32())
    absent = np.array([run is None for run in values], bool)
    return pa.ListArray.from_arrays(offsets, items, type=kind, mask=pa.array(absent))


def _text(field: Field, values: NDArray[Any], kind: pa.DataType) -> pa.Array:
    found = pa.array(values.tolist(), kind)
    if isinstance(found, pa.ChunkedArray):
        raise SampleShapeError(
            f"field {field.name!r}: a batch has more than 2 GiB of text, which no Arrow column"
            " holds; use a smaller batch_size"
        )
    return found


def _fixed(values: NDArray[Any], kind: pa.DataType) -> pa.Array:
    if not isinstance(values, np.ma.MaskedArray):
        return _nested(values, kind)
    return _nested(values.data, kind, pa.array(absent_rows(values)))


def _nested(values: NDArray[Any], kind: pa.DataType, absent: pa.Array | None = None) -> pa.Array:
    """Return ``(n, *S)`` numbers as n values, or n lists of lists, of fixed size."""
    if values.ndim == 1:
        return pa.array(values, mask=None if absent is None else absent.to_numpy(False))
    items = _nested(values.reshape(-1, *values.shape[2:]), kind.value_type)
    return pa.FixedSizeListArray.from_arrays(items, type=kind, mask=absent)

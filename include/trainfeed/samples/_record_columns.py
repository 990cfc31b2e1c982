"""Columns of many samples to records, without a step per sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import SampleShapeError
from trainfeed.samples._column_memory import items_dtype
from trainfeed.samples._field_values import as_array
from trainfeed.samples._presence import present_rows, set_bits
from trainfeed.samples._schema import PRESENCE, Schema

__all__ = ["common_length", "records_of_columns"]


def records_of_columns(schema: Schema, columns: Mapping[str, NDArray[Any]]) -> NDArray[np.void]:
    """Return records as a structured array; see ``TypedCodec.encode_columns``."""
    num_samples = common_length(schema.names, columns)
    # Every byte is written below, except those of absent fields, which must be zero.
    new = np.zeros if schema.optional else np.empty
    records = new(num_samples, schema.record_dtype)
    items = records.view(items_dtype(schema))
    bit = 0
    for field in schema:
        column = columns.get(field.name)
        if not field.optional:
            if column is None:
                raise SampleShapeError(f"field {field.name!r}: expected {field}, got no column")
            values = as_array(field, column, num_samples)
            if (target := items[field.name]).dtype.kind == "V":
                values = np.ndarray(num_samples, target.dtype, values)
            target[...] = values
            continue
        rows = present_rows(field, column, num_samples)
        set_bits(records[PRESENCE], bit, rows)
        if column is not None:
            values = np.ma.getdata(column)[rows]
            records[field.name][rows] = as_array(field, values, len(values))
        bit += 1
    return records


def common_length(names: tuple[str, ...], columns: Mapping[str, NDArray[Any]]) -> int:
    """Return the number of samples in columns.

    Raises:
        SampleShapeError: Columns differ in length, or a name is not in ``names``, or there is no
            column.
    """
    if not columns or not columns.keys() <= set(names):
        raise SampleShapeError(f"expected columns of the fields {list(names)}, got {list(columns)}")
    lengths = {name: len(column) for name, column in columns.items()}
    num_samples = next(iter(lengths.values()))
    if any(length != num_samples for length in lengths.values()):
        raise SampleShapeError(f"expected columns of one length, got {lengths}")
    return num_samples

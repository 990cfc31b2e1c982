"""Rows of typed fields as JSON: their form in the quarantine, and in landing files of previews."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from trainfeed.conversion.arrow_json import json_texts
from trainfeed.errors import FormatError
from trainfeed.preprocessing.source_record import FIELDS
from trainfeed.sources import LANDING_SCHEMA


def row_values(fields: pa.StructArray) -> pa.Array:
    """Return rows as JSON in UTF-8, null for a null row: an object with the fields in their order.

    The form is that of ``trainfeed.conversion.arrow_json``: bytes are base64, times are numbers in
    the unit of their type, decimals are text.
    """
    texts = json_texts(fields)
    return pa.array([None if text is None else text.encode() for text in texts], pa.binary())


def as_values(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return records with typed fields as a batch of ``LANDING_SCHEMA`` whose values are JSON.

    A batch without typed fields is returned as it is.
    """
    if FIELDS not in batch.schema.names:
        return batch
    place = LANDING_SCHEMA.get_field_index("value")
    columns = batch.select(LANDING_SCHEMA.names)
    values = row_values(batch.column(FIELDS))
    return columns.set_column(place, LANDING_SCHEMA.field(place), values)


def with_fields(batch: pa.RecordBatch, types: Mapping[str, pa.DataType]) -> pa.RecordBatch:
    """Return the batch from which ``as_values`` made this one.

    Args:
        batch: Records of ``LANDING_SCHEMA`` whose values are JSON.
        types: Name → type of the fields, as read.

    Raises:
        FormatError: A value is no row of these fields.
    """
    kind = pa.struct(list(types.items()))
    try:
        rows = [
            None if value is None else _plain(json.loads(value), kind)
            for value in batch.column("value").to_pylist()
        ]
        fields = pa.array(rows, kind)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise FormatError(f"expected rows of typed fields: {error}") from error
    place = LANDING_SCHEMA.get_field_index("value")
    nulls = pa.nulls(batch.num_rows, pa.binary())
    landed = batch.set_column(place, LANDING_SCHEMA.field(place), nulls)
    return landed.append_column(pa.field(FIELDS, kind), fields)


def _plain(value: Any, kind: pa.DataType) -> Any:
    """Return a JSON value as the value that Arrow takes for the type."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: _plain(value[field.name], field.type) for field in kind.fields}
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return [_plain(item, kind.value_type) for item in value]
    if pa.types.is_binary(kind):
        return _bytes(value)
    if pa.types.is_decimal(kind):
        return _decimal(value)
    # NaN and infinities are texts in JSON.
    return float(value) if pa.types.is_floating(kind) else value


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise ValueError(f"{text!r} is no decimal") from error

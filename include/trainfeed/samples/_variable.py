"""Chunks of records of different lengths to columns; fixed fields without a step per record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainfeed.samples._decoder import variable_value
from trainfeed.samples._presence import masked_rows
from trainfeed.samples._record_layout import RecordLayout, record_places
from trainfeed.samples._schema import Field, Schema

__all__ = ["VariableDecoder"]


class VariableDecoder:
    """Decodes chunks of a schema with fields of variable size.

    Args:
        schema: The schema.
        layout: The layout of its records.
    """

    def __init__(self, schema: Schema, layout: RecordLayout) -> None:
        self._names = schema.names
        self._layout = layout

    def columns(
        self, framing: memoryview, num_records: int, *, copy: bool
    ) -> dict[str, NDArray[Any]]:
        """Return the fields of all records of a chunk; see ``TypedCodec.decode_columns``.

        Raises:
            FormatError: The framing does not hold ``num_records`` records of this schema.
        """
        layout = self._layout
        heads, ends = layout.find(framing, record_places(framing, num_records))
        fixed = heads["fixed"]
        absent = layout.presence.absent(fixed)
        columns: dict[str, NDArray[Any]] = {}
        for field in layout.fixed:
            column = fixed[field.name].copy()
            missing = absent.get(field.name)
            columns[field.name] = column if missing is None else masked_rows(column, missing)
        for i, field in enumerate(layout.variable):
            # The values of a variable field start where those of the one before it end.
            bounds, missing = ends[:, i : i + 2], absent.get(field.name)
            values = _values(field, framing, bounds, copy=copy)
            if missing is not None:
                values[missing] = None
            columns[field.name] = values
        return {name: columns[name] for name in self._names}


def _values(
    field: Field, framing: memoryview, bounds: NDArray[np.int64], *, copy: bool
) -> NDArray[Any]:
    """Return the values between the bounds, shape ``(n, 2)``, as objects."""
    starts, ends = bounds.T.tolist()
    parts: Iterator[Any] = map(framing.__getitem__, map(slice, starts, ends))
    if copy and field.dtype == "bytes":
        parts = map(bytes, parts)
    elif field.dtype != "bytes":
        parts = (variable_value(field, part) for part in parts)
    # fromiter, not np.array: numpy would treat values that are sequences as further dimensions.
    return np.fromiter(parts, object, len(bounds))

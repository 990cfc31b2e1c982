"""Chunks of records of different length to columns: what is fixed without a step per record."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import FormatError
from trainfeed.recordio import record_bounds
from trainfeed.samples._decoder import (
    masked_where_absent,
    presence_bits,
    require_booleans,
    variable_value,
)
from trainfeed.samples._schema import Field, Schema

__all__ = ["VariableDecoder"]

_LENGTH_BYTES: Final = 4

_Ints = NDArray[np.int64]


class VariableDecoder:
    """Decodes chunks of a schema with fields of variable size.

    Args:
        schema: The schema.
    """

    def __init__(self, schema: Schema) -> None:
        self._names = schema.names
        self._optional = schema.optional
        self._fixed = [field for field in schema if field.is_fixed]
        self._variable = [field for field in schema if not field.is_fixed]
        self._head = np.dtype(
            [("fixed", schema.fixed_dtype), ("counts", "<u4", (len(self._variable),))]
        )

    def columns(
        self, framing: memoryview, num_records: int, *, copy: bool
    ) -> dict[str, NDArray[Any]]:
        """Return the fields of all records of a chunk; see ``TypedCodec.decode_columns``.

        Raises:
            FormatError: The framing does not hold ``num_records`` records of this schema.
        """
        bounds = np.frombuffer(record_bounds(framing, num_records), np.int64)
        starts, ends = bounds[:-1] + _LENGTH_BYTES, bounds[1:]
        heads = self._heads(framing, starts, ends)
        fixed, counts = heads["fixed"], heads["counts"]
        present = self._present(fixed)
        columns = {field.name: fixed[field.name].copy() for field in self._fixed}
        for field in self._fixed:
            if field.dtype == "bool":
                require_booleans(field.name, columns[field.name].view(np.uint8))
            if field.optional:
                columns[field.name] = masked_where_absent(columns[field.name], present[field.name])
        # Where the values of the variable fields lie: each where the one before it ends.
        places = [starts + self._head.itemsize]
        for i, field in enumerate(self._variable):
            places.append(places[-1] + _num_bytes(field, counts[:, i], len(framing)))
        # No count is negative, so the others lie within the record if the last ends with it.
        if (places[-1] != ends).any():
            raise _wrong_length(places[-1], ends)
        for field, place in zip(self._variable, pairwise(places), strict=True):
            columns[field.name] = _values(field, framing, place, present.get(field.name), copy=copy)
        return {name: columns[name] for name in self._names}

    def _heads(self, framing: memoryview, starts: _Ints, ends: _Ints) -> NDArray[np.void]:
        """Return presence, fixed fields and counts of all records, in memory of their own."""
        num_bytes = self._head.itemsize
        if not len(starts):
            return np.empty(0, self._head)
        if (short := ends - starts < num_bytes).any():
            first = int(np.argmax(short))
            raise FormatError(
                f"record {first} of the chunk: expected at least {num_bytes} bytes, got"
                f" {ends[first] - starts[first]}"
            )
        # An item starts at every byte, and those at the starts are picked.
        items: NDArray[np.void] = np.ndarray(
            len(framing) - num_bytes + 1, f"V{num_bytes}", framing, strides=(1,)
        )
        return items[starts].view(self._head)

    def _present(self, fixed: NDArray[np.void]) -> dict[str, NDArray[np.bool_]]:
        if not self._optional:
            return {}
        bits = presence_bits(fixed, len(self._optional))
        return {field.name: bits[:, i] for i, field in enumerate(self._optional)}


def _num_bytes(field: Field, counts: NDArray[np.uint32], framing_bytes: int) -> _Ints:
    item_bytes = math.prod(field.item_shape) * field.values_dtype.itemsize
    # Beyond the framing in any case; the products below then stay far from 64 bits.
    if (counts > framing_bytes // item_bytes).any():
        raise FormatError(f"field {field.name!r} announces more values than the chunk can hold")
    return counts.astype(np.int64) * item_bytes


def _wrong_length(found: _Ints, ends: _Ints) -> FormatError:
    first = int(np.argmax(found != ends))
    return FormatError(
        f"record {first} of the chunk ends {ends[first] - found[first]} bytes from where its counts"
        " say"
    )


def _values(
    field: Field,
    framing: memoryview,
    bounds: tuple[_Ints, _Ints],
    present: NDArray[np.bool_] | None,
    *,
    copy: bool,
) -> NDArray[Any]:
    starts, ends = bounds
    parts: Iterator[Any] = map(framing.__getitem__, map(slice, starts.tolist(), ends.tolist()))
    if copy and field.dtype == "bytes":
        parts = map(bytes, parts)
    elif field.dtype != "bytes":
        parts = (variable_value(field, part) for part in parts)
    # Not from a list: numpy would look into what it takes for sequences.
    values = np.fromiter(parts, object, len(starts))
    if present is not None:
        if np.any(starts[~present] != ends[~present]):
            raise FormatError(f"field {field.name!r} is absent and holds values")
        values[~present] = None
    return values

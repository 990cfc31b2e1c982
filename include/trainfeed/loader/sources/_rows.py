"""Samples of fixed size: a chunk is an array of rows, and fields are views of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import FormatError
from trainfeed.loader.columns import (
    ALIGNMENT_BYTES,
    Columns,
    Dense,
    FieldPlace,
    Memory,
    Rows,
    SampleLayout,
    count_rows,
)
from trainfeed.samples import Field, Schema

__all__ = ["RowDecoder", "check_booleans", "check_presence", "take"]

_LENGTH: Final = "_length"
_PRESENCE: Final = "_presence"
_LENGTH_BYTES: Final = 4
# numpy gathers into an array of its own; pieces of this size are still in the cache when they are
# copied to where they belong.
_PIECE_BYTES: Final = 128 << 10


class RowDecoder:
    """Turns the framing of samples of one fixed schema into columns.

    Attributes:
        stride_bytes: What one sample takes, its length word included.
        layout: Where the fields are in that.
    """

    def __init__(self, schema: Schema) -> None:
        self._fields = schema.fields
        self._optional = schema.optional
        self._record_bytes = schema.record_dtype.itemsize
        self._framed = np.dtype([(_LENGTH, "<u4"), ("record", schema.record_dtype)])
        self.stride_bytes = self._framed.itemsize
        offsets = {name: entry[1] for name, entry in (schema.record_dtype.fields or {}).items()}
        self.layout = _layout(schema, offsets, self.stride_bytes)
        # Such fields trip other libraries as views, so they are copied; most are small.
        self._awkward = {
            field.name
            for field in schema.fields
            if self.stride_bytes % field.values_dtype.itemsize
            or (offsets[field.name] + 4) % field.values_dtype.itemsize
        }

    def num_view_bytes(self, num_samples: int) -> int:
        """Return the memory that ``views`` needs, the framing included."""
        copied = [_field_bytes(f, num_samples) for f in self._fields if f.name in self._awkward]
        return self._sum([num_samples * self.stride_bytes, *copied], num_samples)

    def num_gather_bytes(self, num_samples: int) -> int:
        """Return the memory that ``gather`` needs."""
        return self._sum([_field_bytes(f, num_samples) for f in self._fields], num_samples)

    def check(self, framing: NDArray[np.uint8]) -> None:
        """Refuse what is no sequence of samples of this schema.

        Raises:
            FormatError: A length, a boolean or a presence bit is impossible.
        """
        framed = framing.view(self._framed)
        lengths = framed[_LENGTH]
        if (wrong := lengths != self._record_bytes).any():
            first = int(wrong.argmax())
            raise FormatError(
                f"record {first} of the chunk has {lengths[first]} bytes, the schema's have"
                f" {self._record_bytes}"
            )
        check_booleans(self._fields, framed["record"])
        check_presence(self._optional, framed["record"])

    def views(self, framing: NDArray[np.uint8], memory: Memory) -> Columns:
        """Return the columns as views of ``framing``, the awkward ones as arrays in ``memory``."""
        records = framing.view(self._framed)["record"]

        def column(field: Field) -> NDArray[Any]:
            if field.name not in self._awkward:
                return records[field.name]
            out = memory.array((len(records), *field.item_shape), field.values_dtype)
            out[...] = records[field.name]
            return out

        return self._columns(records, slice(None), column, memory)

    def gather(self, framing: NDArray[np.uint8], rows: Rows, memory: Memory) -> Columns:
        """Return ``rows`` of the samples as contiguous arrays in ``memory``."""
        records = framing.view(self._framed)["record"]

        def column(field: Field) -> NDArray[Any]:
            values = records[field.name]
            out = memory.array(
                (count_rows(rows, len(values)), *field.item_shape), field.values_dtype
            )
            take(values, rows, out)
            return out

        return self._columns(records, rows, column, memory)

    def _columns(
        self,
        records: NDArray[np.void],
        rows: Rows,
        column: Callable[[Field], NDArray[Any]],
        memory: Memory,
    ) -> Columns:
        columns = {field.name: Dense(column(field)) for field in self._fields}
        for name, found in self._absent(records[rows] if self._optional else records).items():
            absent = memory.array(found.shape, bool)
            absent[...] = found
            columns[name] = Dense(columns[name].values, absent)
        return dict(columns)

    def _absent(self, records: NDArray[np.void]) -> dict[str, NDArray[np.bool_]]:
        """Return which samples lack which optional field."""
        if not self._optional:
            return {}
        bits = np.unpackbits(records[_PRESENCE], axis=1, bitorder="little")
        return {field.name: bits[:, i] == 0 for i, field in enumerate(self._optional)}

    def _sum(self, sizes: list[int], num_samples: int) -> int:
        sizes = [*sizes, *[num_samples] * len(self._optional)]
        return sum(-(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES for size in sizes)


def take(values: NDArray[Any], rows: Rows, out: NDArray[Any]) -> None:
    """Copy ``rows`` of ``values`` to ``out``."""
    if isinstance(rows, slice):
        out[...] = values[rows]
        return
    piece = max(64, _PIECE_BYTES // max(1, values[:1].nbytes))
    for start in range(0, len(rows), piece):
        out[start : start + piece] = values[rows[start : start + piece]]


def check_booleans(fields: tuple[Field, ...], records: NDArray[np.void]) -> None:
    """Refuse booleans that are neither true nor false.

    Raises:
        FormatError: There is one.
    """
    for field in fields:
        if field.values_dtype.kind == "b" and (records[field.name].view(np.uint8) > 1).any():
            raise FormatError(f"field {field.name!r} holds a byte that is neither 0 nor 1")


def check_presence(optional: tuple[Field, ...], records: NDArray[np.void]) -> None:
    """Refuse presence bits that belong to no field.

    Raises:
        FormatError: There is one.
    """
    if not optional or not len(optional) % 8:
        return
    if (records[_PRESENCE][:, -1] >> len(optional) % 8).any():
        raise FormatError("a presence bit is set beyond those of the optional fields")


def _layout(schema: Schema, offsets: dict[str, int], stride_bytes: int) -> SampleLayout:
    """Return where the fields of a framed sample are; their offsets are those in the record."""
    bits = {field.name: bit for bit, field in enumerate(schema.optional)}
    fields = tuple(
        FieldPlace(
            field.name,
            offsets[field.name] + _LENGTH_BYTES,
            field.values_dtype,
            field.item_shape,
            bits.get(field.name),
        )
        for field in schema.fields
    )
    presence = offsets.get(_PRESENCE, 0) + _LENGTH_BYTES, -(-len(bits) // 8)
    return SampleLayout(stride_bytes, fields, presence)


def _field_bytes(field: Field, num_samples: int) -> int:
    return num_samples * math.prod(field.item_shape) * field.values_dtype.itemsize

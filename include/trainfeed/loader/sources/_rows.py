"""Samples of fixed size: a chunk is an array of rows, and fields are views of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.loader.columns import (
    ALIGNMENT_BYTES,
    Columns,
    Dense,
    Memory,
    Rows,
    SampleLayout,
    count_rows,
)
from trainfeed.samples import LENGTH_BYTES, Field, RecordLayout, Schema

__all__ = ["RowDecoder", "take"]

# numpy gathers into a temporary array; pieces of this size are still in the cache when they are
# copied to the output.
_PIECE_BYTES: Final = 128 << 10


class RowDecoder:
    """Turns the framing of samples of one fixed schema into columns.

    Attributes:
        stride_bytes: Bytes of one sample, with its length word.
        layout: Offsets of the fields in these bytes.
    """

    def __init__(self, schema: Schema) -> None:
        self._fields = schema.fields
        self._num_optional = len(schema.optional)
        self._records = RecordLayout(schema)
        self.stride_bytes = self._records.framed.itemsize
        self.layout = _layout(self._records, schema)
        # Fields that are not aligned to their item size: other libraries refuse views of them, so
        # they are copied; most are small.
        self._awkward = self._records.unaligned(LENGTH_BYTES, self.stride_bytes)

    def num_view_bytes(self, num_samples: int) -> int:
        """Return the bytes of memory that ``views`` needs, including the framing."""
        copied = [num_samples * f.item_bytes for f in self._fields if f.name in self._awkward]
        return self._sum([num_samples * self.stride_bytes, *copied], num_samples)

    def num_gather_bytes(self, num_samples: int) -> int:
        """Return the bytes of memory that ``gather`` needs."""
        return self._sum([num_samples * f.item_bytes for f in self._fields], num_samples)

    def check(self, framing: NDArray[np.uint8]) -> None:
        """Refuse bytes that are not a sequence of samples of this schema.

        Raises:
            FormatError: A length, a boolean or a presence bit is impossible.
        """
        framed = framing.view(self._records.framed)
        self._records.require_fixed(framed)
        self._records.presence.require_known(framed["record"])

    def require_size(self, num_records: int, raw_bytes: int) -> None:
        """Refuse a framing whose size differs from that of ``num_records`` samples.

        Raises:
            FormatError: The size differs.
        """
        self._records.require_size(num_records, raw_bytes)

    def views(self, framing: NDArray[np.uint8], memory: Memory) -> Columns:
        """Return the columns as views of ``framing``, unaligned ones as copies in ``memory``."""
        records = framing.view(self._records.framed)["record"]

        def column(field: Field) -> NDArray[Any]:
            if field.name not in self._awkward:
                return records[field.name]
            out = memory.array((len(records), *field.item_shape), field.values_dtype)
            out[...] = records[field.name]
            return out

        return self._columns(records, slice(None), column, memory)

    def gather(self, framing: NDArray[np.uint8], rows: Rows, memory: Memory) -> Columns:
        """Return ``rows`` of the samples as contiguous arrays in ``memory``."""
        records = framing.view(self._records.framed)["record"]

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
        if not self._num_optional:
            return dict(columns)
        for name, found in self._records.presence.absent(records[rows]).items():
            absent = memory.array(found.shape, bool)
            absent[...] = found
            columns[name] = Dense(columns[name].values, absent)
        return dict(columns)

    def _sum(self, sizes: list[int], num_samples: int) -> int:
        sizes = [*sizes, *[num_samples] * self._num_optional]
        return sum(-(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES for size in sizes)


def take(values: NDArray[Any], rows: Rows, out: NDArray[Any]) -> None:
    """Copy ``rows`` of ``values`` to ``out``."""
    if isinstance(rows, slice):
        out[...] = values[rows]
        return
    piece = max(64, _PIECE_BYTES // max(1, values[:1].nbytes))
    for start in range(0, len(rows), piece):
        out[start : start + piece] = values[rows[start : start + piece]]


def _layout(records: RecordLayout, schema: Schema) -> SampleLayout:
    """Return the offsets of the fields in a framed sample, which begins with its length."""
    fields = tuple(
        place._replace(offset_bytes=LENGTH_BYTES + place.offset_bytes) for place in records.places
    )
    return SampleLayout(records.framed.itemsize, fields, (LENGTH_BYTES, schema.presence_bytes))

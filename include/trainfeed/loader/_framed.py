"""Samples of variable size: where the records of a chunk lie, and the fields in them."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import FormatError
from trainfeed.loader._columns import Column, Columns, Dense, Ragged, Rows
from trainfeed.loader._rows import check_booleans, check_presence
from trainfeed.samples import Field, Schema

__all__ = ["RECORD", "PlainRecords", "RecordParser", "Records", "TypedRecords", "record_places"]

# The only field of records that have no schema.
RECORD: Final = "record"

_LENGTH: Final = struct.Struct("<I")
_PRESENCE: Final = "_presence"


class Records(NamedTuple):
    """Records in a buffer, with what was found in them.

    Attributes:
        buffer: Their bytes, and others.
        places: Start and end of each, shape ``(n, 2)``.
        heads: Fixed part and counts of each, shape ``(n,)``; empty without a schema.
        ends: Where the variable fields of each start, and where the last ends, shape ``(n, v + 1)``
            for v of them; empty without a schema.
    """

    buffer: memoryview
    places: NDArray[np.int64]
    heads: NDArray[Any]
    ends: NDArray[np.int64]

    def part(self, start: int, stop: int) -> Records:
        """Return some of the records."""
        rows = slice(start, stop)
        return Records(self.buffer, self.places[rows], self.heads[rows], self.ends[rows])


class RecordParser(Protocol):
    """Finds the fields of records, for many records at once."""

    def parse(self, buffer: memoryview, places: NDArray[np.int64]) -> Records:
        """Find the fields of the records of a buffer.

        Raises:
            FormatError: A record is none of the schema.
        """

    def columns(self, parts: Sequence[Records], rows: Rows) -> Columns:
        """Return ``rows`` of the records of all parts, counted from the first part's first."""


def record_places(framing: memoryview, num_records: int) -> NDArray[np.int64]:
    """Return start and end of the records of a framing, shape ``(num_records, 2)``.

    Raises:
        FormatError: ``num_records`` records do not end exactly where the framing ends.
    """
    starts, unpack, start = [], _LENGTH.unpack_from, 0
    try:
        for _ in range(num_records):
            starts.append(start)
            start += 4 + unpack(framing, start)[0]
    except struct.error:
        start = len(framing) + 1
    if start != len(framing):
        raise FormatError(
            f"expected {num_records} records in {len(framing)} bytes of framing, they end"
            f" {'before' if start < len(framing) else 'after'} it does"
        )
    bounds = np.array([*starts, start], np.int64)
    return np.stack([bounds[:-1] + 4, bounds[1:]], axis=1)


class PlainRecords:
    """Records without a schema: one field, their bytes; see ``RecordParser``."""

    def parse(self, buffer: memoryview, places: NDArray[np.int64]) -> Records:
        """Return the records as they are."""
        return Records(buffer, places, _NOTHING, _NOTHING)

    def columns(self, parts: Sequence[Records], rows: Rows) -> Columns:
        """Return the records as ``{"record": …}``."""
        places = np.concatenate([part.places for part in parts])[rows]
        numbers = _numbers(parts)[rows]
        buffers = [part.buffer for part in parts]
        return {RECORD: Ragged(buffers, np.column_stack([numbers, places]), "bytes")}


class TypedRecords:
    """Records of a schema in which the size of some fields varies."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._fixed = tuple(field for field in schema if field.is_fixed)
        self._variable = tuple(field for field in schema if not field.is_fixed)
        self._optional = {field.name: i for i, field in enumerate(schema.optional)}
        self._head = np.dtype(
            [("fixed", schema.fixed_dtype), ("counts", "<u4", (len(self._variable),))]
        )
        self._item_bytes = np.array(
            [math.prod(f.item_shape) * f.values_dtype.itemsize for f in self._variable], np.int64
        )

    def parse(self, buffer: memoryview, places: NDArray[np.int64]) -> Records:
        """Find the fields of the records of a buffer; see ``RecordParser``."""
        heads = self._heads(buffer, places)
        ends = self._ends(places, heads["counts"])
        check_booleans(self._fixed, heads["fixed"])
        check_presence(self._schema.optional, heads["fixed"])
        return Records(buffer, places, heads, ends)

    def columns(self, parts: Sequence[Records], rows: Rows) -> Columns:
        """Return the fields of the schema, in its order."""
        records = np.concatenate([part.heads["fixed"] for part in parts])[rows]
        ends = np.concatenate([part.ends for part in parts])[rows]
        numbers, buffers = _numbers(parts)[rows], [part.buffer for part in parts]
        absent = self._absent(records)
        found: dict[str, Column] = {
            field.name: Dense(np.ascontiguousarray(records[field.name]), absent.get(field.name))
            for field in self._fixed
        }
        for i, field in enumerate(self._variable):
            places = np.column_stack([numbers, ends[:, i], ends[:, i + 1]])
            found[field.name] = self._ragged(field, buffers, places, absent.get(field.name))
        return {name: found[name] for name in self._schema.names}

    def _ragged(
        self,
        field: Field,
        buffers: list[memoryview],
        places: NDArray[np.int64],
        absent: NDArray[np.bool_] | None,
    ) -> Ragged:
        if absent is not None and (places[absent, 1] != places[absent, 2]).any():
            raise FormatError(f"field {field.name!r} is absent and holds values")
        kind = field.dtype if field.is_text else field.values_dtype.str
        return Ragged(buffers, places, kind, field.item_shape, absent)

    def _heads(self, buffer: memoryview, places: NDArray[np.int64]) -> NDArray[np.void]:
        """Return the fixed part and the counts of every record, shape ``(n,)``."""
        size = self._head.itemsize
        lengths = places[:, 1] - places[:, 0]
        if not len(lengths):
            return np.empty(0, self._head)
        if lengths.min() < size:
            raise FormatError(f"expected records of at least {size} bytes, got {lengths.min()}")
        data = np.frombuffer(buffer, np.uint8)
        windows = np.lib.stride_tricks.as_strided(data, (len(data) - size + 1, size), (1, 1))
        return np.ascontiguousarray(windows[places[:, 0]]).view(self._head)[:, 0]

    def _ends(self, places: NDArray[np.int64], counts: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Return where the variable fields start, and where the last ends, shape (n, v + 1)."""
        ends = np.empty((len(counts), len(self._variable) + 1), np.int64)
        ends[:, 0] = places[:, 0] + self._head.itemsize
        np.cumsum(counts.astype(np.int64) * self._item_bytes, axis=1, out=ends[:, 1:])
        ends[:, 1:] += ends[:, :1]
        if (wrong := ends[:, -1] != places[:, 1]).any():
            raise FormatError(f"record {int(wrong.argmax())} of the chunk contradicts its counts")
        return ends

    def _absent(self, records: NDArray[np.void]) -> dict[str, NDArray[np.bool_]]:
        if not self._optional:
            return {}
        bits = np.unpackbits(records[_PRESENCE], axis=1, bitorder="little")
        return {name: bits[:, i] == 0 for name, i in self._optional.items()}


def _numbers(parts: Sequence[Records]) -> NDArray[np.int64]:
    """Return the number of its part for every record of all parts."""
    return np.repeat(np.arange(len(parts)), [len(part.places) for part in parts])


_NOTHING: Final[NDArray[Any]] = np.empty(0, np.int64)

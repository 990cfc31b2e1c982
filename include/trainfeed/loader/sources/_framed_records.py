"""Samples of variable size: where the records of a chunk lie, and the fields in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from trainfeed.loader.columns import Columns, Dense, Ragged, Rows
from trainfeed.samples import Field, RecordLayout, Schema

__all__ = [
    "RECORD",
    "FoundRecords",
    "FramedRecords",
    "PlainRecords",
    "RecordParser",
    "TypedRecords",
]

# The only field of records that have no schema.
RECORD: Final = "record"

_Item = TypeVar("_Item", bound=np.generic)


class FoundRecords(NamedTuple):
    """What was found about the records in a buffer.

    Attributes:
        heads: Fixed part and counts of each as bytes, shape ``(n,)``; empty without a schema.
        ends: Where the variable fields of each start, and where the last ends, shape ``(n, v + 1)``
            for v of them. Without a schema the record is the only one.
    """

    heads: NDArray[np.void]
    ends: NDArray[np.int64]

    @property
    def num_bytes(self) -> int:
        """What this takes."""
        return self.heads.nbytes + self.ends.nbytes

    def part(self, start: int, stop: int) -> FoundRecords:
        """Return what is about some of the records."""
        return FoundRecords(self.heads[start:stop], self.ends[start:stop])


class FramedRecords(NamedTuple):
    """Records in a buffer.

    Attributes:
        buffer: Their bytes, and others.
        found: What was found about them.
        is_mapped: Whether the buffer is a mapped file.
    """

    buffer: memoryview
    found: FoundRecords
    is_mapped: bool = False


class _RunKind(NamedTuple):
    """What the runs of a field are; see ``Ragged``."""

    kind: str
    item_shape: tuple[int, ...] = ()


class RecordParser(Protocol):
    """Finds the fields of records, for many records at once."""

    def parse(self, buffer: memoryview, places: NDArray[np.int64]) -> FoundRecords:
        """Find the fields of the records of a buffer.

        Raises:
            FormatError: A record is none of the schema.
        """

    def blank(self, num_records: int) -> FoundRecords:
        """Return what stands for records that are missing: their fields are empty."""

    def columns(self, parts: Sequence[FramedRecords], rows: Rows) -> Columns:
        """Return ``rows`` of the records of all parts, counted from the first part's first."""


class PlainRecords:
    """Records without a schema: one field, their bytes; see ``RecordParser``."""

    def parse(self, _buffer: memoryview, places: NDArray[np.int64]) -> FoundRecords:
        """Return the records as they are."""
        return FoundRecords(_NO_HEADS, places)

    def blank(self, num_records: int) -> FoundRecords:
        """Return what stands for records that are missing."""
        return FoundRecords(_NO_HEADS, np.zeros((num_records, 2), np.int64))

    def columns(self, parts: Sequence[FramedRecords], rows: Rows) -> Columns:
        """Return the records as ``{"record": …}``."""
        return {RECORD: _runs(parts, _picked(_places(parts), rows), _RunKind("bytes"))}


class TypedRecords:
    """Records of a schema in which the size of some fields varies."""

    def __init__(self, schema: Schema) -> None:
        self._names = schema.names
        self._layout = RecordLayout(schema)
        self._kinds = [_kind_of(field) for field in self._layout.variable]

    def parse(self, buffer: memoryview, places: NDArray[np.int64]) -> FoundRecords:
        """Find the fields of the records of a buffer; see ``RecordParser``."""
        heads, ends = self._layout.find(buffer, places)
        # As plain bytes, which are joined and picked faster than fields.
        return FoundRecords(heads.view(f"V{heads.itemsize}"), ends)

    def blank(self, num_records: int) -> FoundRecords:
        """Return what stands for records that are missing."""
        heads = np.zeros(num_records, f"V{self._layout.head.itemsize}")
        return FoundRecords(heads, np.zeros((num_records, len(self._kinds) + 1), np.int64))

    def columns(self, parts: Sequence[FramedRecords], rows: Rows) -> Columns:
        """Return the fields of the schema, in its order."""
        heads = _picked(np.concatenate([part.found.heads for part in parts]), rows)
        fixed = heads.view(self._layout.head)["fixed"]
        places = _picked(_places(parts), rows)
        absent = self._layout.presence.absent(fixed)
        found: Columns = {
            field.name: Dense(np.ascontiguousarray(fixed[field.name]), absent.get(field.name))
            for field in self._layout.fixed
        }
        for i, (field, kind) in enumerate(zip(self._layout.variable, self._kinds, strict=True)):
            own = places if len(self._kinds) == 1 else places[:, [0, i + 1, i + 2]]
            found[field.name] = _runs(parts, own, kind, absent.get(field.name))
        return {name: found[name] for name in self._names}


def _places(parts: Sequence[FramedRecords]) -> NDArray[np.int64]:
    """Return the number of its part, and then its ends, of every record of all parts."""
    num_ends = parts[0].found.ends.shape[1]
    places = np.empty((sum(len(part.found.ends) for part in parts), 1 + num_ends), np.int64)
    end = 0
    for number, part in enumerate(parts):
        start, end = end, end + len(part.found.ends)
        places[start:end, 0], places[start:end, 1:] = number, part.found.ends
    return places


def _picked(values: NDArray[_Item], rows: Rows) -> NDArray[_Item]:
    """Return rows of values; an array of numbers is faster to take than to index by."""
    return values[rows] if isinstance(rows, slice) else values.take(rows, 0)


def _runs(
    parts: Sequence[FramedRecords],
    places: NDArray[np.int64],
    kind: _RunKind,
    absent: NDArray[np.bool_] | None = None,
) -> Ragged:
    """Return a field of records of all parts."""
    is_mapped = all(part.is_mapped for part in parts)
    return Ragged([part.buffer for part in parts], places, *kind, absent, is_mapped)


def _kind_of(field: Field) -> _RunKind:
    name = field.dtype if field.is_text else field.values_dtype.str
    return _RunKind(name, field.item_shape)


_NO_HEADS: Final[NDArray[np.void]] = np.empty(0, "V1")

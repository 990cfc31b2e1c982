"""Samples of variable size: the places of the records in a chunk, and of their fields."""

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

# Name of the only field of records without a schema.
RECORD: Final = "record"

_Item = TypeVar("_Item", bound=np.generic)


class FoundRecords(NamedTuple):
    """The places of the fields of the records in a buffer.

    Attributes:
        heads: Per record the bytes of its fixed part and counts, shape ``(n,)``; empty without a
            schema.
        ends: Per record the starts of its v variable fields, and the end of the last one, as
            offsets in the buffer, shape ``(n, v + 1)``. Without a schema the whole record is the
            one variable field.
    """

    heads: NDArray[np.void]
    ends: NDArray[np.int64]

    @property
    def num_bytes(self) -> int:
        """Size of the arrays in bytes."""
        return self.heads.nbytes + self.ends.nbytes

    def part(self, start: int, stop: int) -> FoundRecords:
        """Return the places of the records ``start`` to ``stop``."""
        return FoundRecords(self.heads[start:stop], self.ends[start:stop])


class FramedRecords(NamedTuple):
    """Records in a buffer.

    Attributes:
        buffer: Memory that contains the bytes of the records.
        found: The places of the records' fields in ``buffer``.
        is_mapped: Whether the buffer is a mapped file.
    """

    buffer: memoryview
    found: FoundRecords
    is_mapped: bool = False


class _RunKind(NamedTuple):
    """Type of the values of a ragged field; see ``Ragged``."""

    kind: str
    item_shape: tuple[int, ...] = ()


class RecordParser(Protocol):
    """Finds the fields of records, for many records at once."""

    def parse(self, buffer: memoryview, places: NDArray[np.int64]) -> FoundRecords:
        """Find the fields of the records of a buffer.

        Raises:
            FormatError: A record does not match the schema.
        """

    def blank(self, num_records: int) -> FoundRecords:
        """Return places for records that are missing: their fields are empty."""

    def columns(self, parts: Sequence[FramedRecords], rows: Rows) -> Columns:
        """Return ``rows`` of the records of all parts, numbered through from the first part on."""


class PlainRecords:
    """Records without a schema: one field, their bytes; see ``RecordParser``."""

    def parse(self, _buffer: memoryview, places: NDArray[np.int64]) -> FoundRecords:
        """Return the records as they are."""
        return FoundRecords(_NO_HEADS, places)

    def blank(self, num_records: int) -> FoundRecords:
        """Return places for records that are missing; see ``RecordParser``."""
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
        # As plain bytes: numpy concatenates and indexes these faster than structured dtypes.
        return FoundRecords(heads.view(f"V{heads.itemsize}"), ends)

    def blank(self, num_records: int) -> FoundRecords:
        """Return places for records that are missing; see ``RecordParser``."""
        heads = np.zeros(num_records, f"V{self._layout.head.itemsize}")
        return FoundRecords(heads, np.zeros((num_records, len(self._kinds) + 1), np.int64))

    def columns(self, parts: Sequence[FramedRecords], rows: Rows) -> Columns:
        """Return the fields in the order of the schema."""
        heads = _picked(np.concatenate([part.found.heads for part in parts]), rows)
        fixed = heads.view(self._layout.head)["fixed"]
        places = _picked(_places(parts), rows)
        absent = self._layout.presence.absent(fixed)
        found: Columns = {
            field.name: Dense(np.ascontiguousarray(fixed[field.name]), absent.get(field.name))
            for field in self._layout.fixed
        }
        for i, (field, kind) in enumerate(zip(self._layout.variable, self._kinds, strict=True)):
            # Column 0 is the number of the buffer; field i starts at column i + 1 and ends at i +
            # 2.
            own = places if len(self._kinds) == 1 else places[:, [0, i + 1, i + 2]]
            found[field.name] = _runs(parts, own, kind, absent.get(field.name))
        return {name: found[name] for name in self._names}


def _places(parts: Sequence[FramedRecords]) -> NDArray[np.int64]:
    """Return per record the number of its part, and its ends; shape ``(n, v + 2)``."""
    num_ends = parts[0].found.ends.shape[1]
    places = np.empty((sum(len(part.found.ends) for part in parts), 1 + num_ends), np.int64)
    end = 0
    for number, part in enumerate(parts):
        start, end = end, end + len(part.found.ends)
        places[start:end, 0], places[start:end, 1:] = number, part.found.ends
    return places


def _picked(values: NDArray[_Item], rows: Rows) -> NDArray[_Item]:
    """Return rows of values; ``take`` is faster than indexing with an array."""
    return values[rows] if isinstance(rows, slice) else values.take(rows, 0)


def _runs(
    parts: Sequence[FramedRecords],
    places: NDArray[np.int64],
    kind: _RunKind,
    absent: NDArray[np.bool_] | None = None,
) -> Ragged:
    """Return one variable field of the records of all parts."""
    is_mapped = all(part.is_mapped for part in parts)
    return Ragged([part.buffer for part in parts], places, *kind, absent, is_mapped)


def _kind_of(field: Field) -> _RunKind:
    name = field.dtype if field.is_text else field.values_dtype.str
    return _RunKind(name, field.item_shape)


_NO_HEADS: Final[NDArray[np.void]] = np.empty(0, "V1")

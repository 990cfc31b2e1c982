"""Samples of variable size: where the records of a chunk lie, and the fields in them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import FormatError
from trainfeed.loader.columns import Columns, Dense, Ragged, Rows
from trainfeed.loader.sources._rows import check_booleans, check_presence
from trainfeed.recordio import record_bounds
from trainfeed.samples import Field, Schema

__all__ = [
    "RECORD",
    "FoundRecords",
    "FramedRecords",
    "PlainRecords",
    "RecordParser",
    "TypedRecords",
    "record_places",
]

# The only field of records that have no schema.
RECORD: Final = "record"

_Item = TypeVar("_Item", bound=np.generic)

_LENGTH_BYTES: Final = 4
_PRESENCE: Final = "_presence"


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


def record_places(framing: memoryview, num_records: int) -> NDArray[np.int64]:
    """Return start and end of the records of a framing, shape ``(num_records, 2)``.

    Raises:
        FormatError: ``num_records`` records do not end exactly where the framing ends.
    """
    bounds = np.frombuffer(record_bounds(framing, num_records), np.int64)
    return np.stack([bounds[:-1] + _LENGTH_BYTES, bounds[1:]], axis=1)


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
        self._schema = schema
        self._names = schema.names
        self._fixed = tuple(field for field in schema if field.is_fixed)
        self._fixed_names = tuple(field.name for field in self._fixed)
        self._variable = tuple(field for field in schema if not field.is_fixed)
        self._kinds = {field.name: _kind_of(field) for field in self._variable}
        self._optional = {field.name: i for i, field in enumerate(schema.optional)}
        self._head = np.dtype(
            [("fixed", schema.fixed_dtype), ("counts", "<u4", (len(self._variable),))]
        )
        self._item_bytes = np.array(
            [math.prod(f.item_shape) * f.values_dtype.itemsize for f in self._variable], np.int64
        )

    def parse(self, buffer: memoryview, places: NDArray[np.int64]) -> FoundRecords:
        """Find the fields of the records of a buffer; see ``RecordParser``."""
        heads = self._heads(buffer, places)
        ends = self._ends(places, heads["counts"], len(buffer))
        check_booleans(self._fixed, heads["fixed"])
        for i, field in enumerate(self._variable):
            if field.dtype == "bool":
                _check_runs_of_booleans(field, buffer, ends[:, i : i + 2])
        check_presence(self._schema.optional, heads["fixed"])
        # As plain bytes, which are joined and picked faster than fields.
        return FoundRecords(heads.view(f"V{self._head.itemsize}"), ends)

    def blank(self, num_records: int) -> FoundRecords:
        """Return what stands for records that are missing."""
        heads = np.zeros(num_records, self._head).view(f"V{self._head.itemsize}")
        return FoundRecords(heads, np.zeros((num_records, len(self._variable) + 1), np.int64))

    def columns(self, parts: Sequence[FramedRecords], rows: Rows) -> Columns:
        """Return the fields of the schema, in its order."""
        heads = _picked(np.concatenate([part.found.heads for part in parts]), rows)
        records = heads.view(self._head)["fixed"]
        places = _picked(_places(parts), rows)
        absent = self._absent(records)
        found: Columns = {
            name: Dense(np.ascontiguousarray(records[name]), absent.get(name))
            for name in self._fixed_names
        }
        for i, (name, kind) in enumerate(self._kinds.items()):
            own = places if len(self._kinds) == 1 else places[:, [0, i + 1, i + 2]]
            missing = absent.get(name)
            if missing is not None and (own[missing, 1] != own[missing, 2]).any():
                raise FormatError(f"field {name!r} is absent and holds values")
            found[name] = _runs(parts, own, kind, missing)
        return {name: found[name] for name in self._names}

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

    def _ends(
        self, places: NDArray[np.int64], counts: NDArray[np.uint32], buffer_bytes: int
    ) -> NDArray[np.int64]:
        """Return where the variable fields start, and where the last ends, shape (n, v + 1)."""
        # Beyond the buffer in any case; the sums below then stay far from 64 bits.
        if (too_many := counts > buffer_bytes // self._item_bytes).any():
            raise FormatError(
                f"record {int(too_many.any(axis=1).argmax())} of the chunk announces more values"
                " than the chunk can hold"
            )
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


def _check_runs_of_booleans(field: Field, buffer: memoryview, runs: NDArray[np.int64]) -> None:
    """Refuse runs, shape ``(n, 2)`` and in order, that hold more than zeros and ones."""
    full = runs[runs[:, 0] < runs[:, 1]].reshape(-1)
    if not len(full):
        return
    # From each start to its end, and from there to the next start; the last ends with the data.
    data = np.frombuffer(buffer, np.uint8)[: full[-1]]
    if (np.maximum.reduceat(data, full[:-1])[::2] > 1).any():
        raise FormatError(f"field {field.name!r} holds a byte that is neither 0 nor 1")


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

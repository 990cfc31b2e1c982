"""The offsets of the parts of a record, its checks, columns as records, and memory for columns."""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import FormatError, SampleShapeError
from trainfeed.recordio import record_bounds
from trainfeed.samples.schema import (
    PRESENCE,
    Field,
    Presence,
    Schema,
    as_array,
    present_rows,
    require_no_values,
    set_bits,
)

# --- Memory for columns that is used again once no array refers to it

_ALIGNMENT_BYTES: Final = 64
# Limit for kept blocks: those of the chunks that threads have decoded ahead, and some more.
_KEPT_BYTES: Final = 16 << 20
_FEW_BYTES: Final = 32  # smaller values are copied fastest with their own dtype


class ColumnBlock:
    """Memory for some samples.

    Attributes:
        num_samples: Number of samples that fit.
        columns: Field → array of shape ``(num_samples, *field.shape)``, contiguous.
        items: The same memory with each value of a large field as one item of bytes, which numpy
            copies fastest.
    """

    def __init__(self, fields: list[Field], num_samples: int) -> None:
        self.num_samples = num_samples
        sizes = [num_samples * field.item_bytes for field in fields]
        room = sum(-(-size // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES for size in sizes)
        self._owner = np.empty(room + _ALIGNMENT_BYTES, np.uint8)
        # The first aligned byte of the owner: (-address) mod alignment.
        start = -self._owner.__array_interface__["data"][0] % _ALIGNMENT_BYTES
        self.columns: dict[str, NDArray[Any]] = {}
        self.items: list[NDArray[Any]] = []
        for field, size in zip(fields, sizes, strict=True):
            shape = num_samples, *field.item_shape
            column: NDArray[Any] = np.ndarray(shape, field.values_dtype, self._owner, start)
            self.columns[field.name] = column
            if _is_large(field.item_bytes):
                column = np.ndarray(num_samples, f"V{field.item_bytes}", self._owner, start)
            self.items.append(column)
            start += -(-size // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        # The arrays above refer to the owner; every further array on this memory raises the count.
        self._own_references = self._references()

    def is_free(self) -> bool:
        """Return whether no array outside this block refers to its memory."""
        return self._references() == self._own_references

    def _references(self) -> int:
        return sys.getrefcount(self._owner)


class ColumnMemory:
    """Blocks of one size for the fixed fields of a schema; threads may share the object.

    Args:
        fields: Fields of fixed size.
        num_samples: Number of samples in a block.

    Attributes:
        num_samples: As above.
    """

    def __init__(self, fields: list[Field], num_samples: int) -> None:
        self.num_samples = num_samples
        self._fields = fields
        block_bytes = num_samples * sum(field.item_bytes for field in fields)
        self._blocks: deque[ColumnBlock] = deque(maxlen=_KEPT_BYTES // block_bytes)

    def take(self) -> ColumnBlock:
        """Return a free block; it belongs to the caller until ``give``."""
        for _ in range(len(self._blocks)):
            try:
                # The block that was used last may still be in the cache.
                block = self._blocks.pop()
            except IndexError:
                break
            if block.is_free():
                return block
            self._blocks.appendleft(block)
        return ColumnBlock(self._fields, self.num_samples)

    def give(self, block: ColumnBlock) -> None:
        """Return ``block``; it is free once the arrays that refer to its memory are gone."""
        self._blocks.append(block)


def items_dtype(schema: Schema) -> np.dtype[np.void]:
    """Return the layout of records with each large field as one item of bytes.

    numpy copies rows of a field fastest in this form.
    """
    dtype = schema.fixed_dtype
    names = dtype.names or ()
    return np.dtype(
        [
            (name, f"V{dtype[name].itemsize}" if _is_large(dtype[name].itemsize) else dtype[name])
            for name in names
        ]
    )


def _is_large(item_bytes: int) -> bool:
    """Return whether numpy copies values of this size fastest as items of bytes."""
    return item_bytes >= _FEW_BYTES


# --- The offsets of the parts of a record, and the checks that a valid record passes

LENGTH_BYTES: Final = 4  # size of the length word before a record
_LENGTH: Final = "_length"

_Ints = NDArray[np.int64]


class FieldPlace(NamedTuple):
    """The place of a field of fixed size in a record.

    Attributes:
        name: Name of the field.
        offset_bytes: Offset of the field in the record.
        dtype: Type of the values.
        item_shape: Shape of the values.
        bit: Number of the presence bit; None for a required field.
    """

    name: str
    offset_bytes: int
    dtype: np.dtype[Any]
    item_shape: tuple[int, ...]
    bit: int | None

    @property
    def num_bytes(self) -> int:
        """Size of the field in bytes."""
        return math.prod(self.item_shape) * self.dtype.itemsize


class RecordLayout:
    """The layout of the records of one schema; threads may share the object.

    Args:
        schema: The schema.

    Attributes:
        fixed: The fields of fixed size, in order.
        variable: The fields of variable size, in order.
        places: Places of the fields of fixed size in a record, in order.
        booleans: The places of fields of booleans.
        presence: The presence bits.
        head: Dtype of the start of a record: ``fixed`` (with the presence bits), then ``counts``,
            shape ``(len(variable),)``.
        framed: Dtype of a record of a schema of fixed size with its length: ``_length``, then
            ``record``.
    """

    def __init__(self, schema: Schema) -> None:
        self.fixed = tuple(field for field in schema if field.is_fixed)
        self.variable = tuple(field for field in schema if not field.is_fixed)
        self.places = _places(schema)
        self.presence = Presence(schema.optional)
        self.head = np.dtype(
            [("fixed", schema.fixed_dtype), ("counts", "<u4", (len(self.variable),))]
        )
        self.framed = np.dtype([(_LENGTH, "<u4"), ("record", schema.fixed_dtype)])
        self.booleans = [place for place in self.places if place.dtype.kind == "b"]
        self._has_optional_runs = any(field.optional for field in self.variable)

    def unaligned(self, start_bytes: int, stride_bytes: int) -> frozenset[str]:
        """Return the fields of fixed size that are not aligned in every record.

        Args:
            start_bytes: Offset of the first record.
            stride_bytes: Distance from one record to the next; 0 for a single record.
        """
        return frozenset(
            place.name
            for place in self.places
            if (start_bytes + place.offset_bytes) % place.dtype.itemsize
            or stride_bytes % place.dtype.itemsize
        )

    def require_size(self, num_records: int, raw_bytes: int) -> None:
        """Refuse a framing whose size differs from that of ``num_records`` records of fixed size.

        Raises:
            FormatError: The size differs.
        """
        if raw_bytes != num_records * self.framed.itemsize:
            raise FormatError(
                f"expected {num_records} records of {self.head.itemsize} bytes each, got"
                f" {raw_bytes} bytes with the lengths"
            )

    def require_fixed(self, framed: NDArray[np.void]) -> None:
        """Refuse records, of dtype ``framed``, that do not match the schema of fixed size.

        Raises:
            FormatError: A record has another length, or a boolean that is neither true nor false.
        """
        lengths, expected = framed[_LENGTH], self.head.itemsize
        if (wrong := lengths != expected).any():
            first = int(wrong.argmax())
            raise FormatError(
                f"record {first} of the chunk has {lengths[first]} bytes, the schema's have"
                f" {expected}"
            )
        self._require_booleans(framed["record"])

    def find(self, framing: memoryview, places: _Ints) -> tuple[NDArray[np.void], _Ints]:
        """Find the fields of records of different length, and verify all but text.

        Args:
            framing: Memory that contains the records.
            places: Offsets of start and end of each record, ascending, shape ``(n, 2)``.

        Returns:
            The heads, shape ``(n,)``, in memory of their own; and per record the starts of its v
            variable fields and the end of the last one, as offsets, shape ``(n, v + 1)``.

        Raises:
            FormatError: A record does not match the schema.
        """
        heads = self._heads(framing, places)
        ends = self._ends(places, heads["counts"], len(framing))
        self._require_booleans(heads["fixed"])
        for i, field in enumerate(self.variable):
            if field.dtype == "bool":
                _require_boolean_runs(field, framing, ends[:, i : i + 2])
        self._require_absent_empty(heads["fixed"], ends)
        return heads, ends

    def _require_booleans(self, fixed: NDArray[np.void]) -> None:
        for place in self.booleans:
            require_booleans(place.name, fixed[place.name].view(np.uint8))

    def _require_absent_empty(self, fixed: NDArray[np.void], ends: _Ints) -> None:
        self.presence.require_known(fixed)
        if self._has_optional_runs:
            absent = self.presence.absent(fixed)
            for i, field in enumerate(self.variable):
                if field.optional:
                    require_no_values(field, absent[field.name], ends[:, i : i + 2])

    def _heads(self, framing: memoryview, places: _Ints) -> NDArray[np.void]:
        size = self.head.itemsize
        if not len(places):
            return np.empty(0, self.head)
        lengths = places[:, 1] - places[:, 0]
        if (short := lengths < size).any():
            first = int(short.argmax())
            raise FormatError(
                f"record {first} of the chunk: expected at least {size} bytes, got {lengths[first]}"
            )
        # A view with an item at every byte (strides of 1): items overlap. Indexing with the starts
        # copies the heads of the records.
        items: NDArray[np.void] = np.ndarray(
            len(framing) - size + 1, f"V{size}", framing, strides=(1,)
        )
        return items[places[:, 0]].view(self.head)

    def _ends(self, places: _Ints, counts: NDArray[np.uint32], framing_bytes: int) -> _Ints:
        ends = np.empty((len(counts), len(self.variable) + 1), np.int64)
        np.add(places[:, 0], self.head.itemsize, out=ends[:, 0])
        for i, field in enumerate(self.variable):
            # The count is limited by the size of the framing, so that products and sums cannot
            # overflow 64 bits.
            item_bytes = min(field.item_bytes, framing_bytes + 1)
            if (too_many := counts[:, i] > framing_bytes // item_bytes).any():
                raise FormatError(
                    f"record {too_many.argmax()} of the chunk: field {field.name!r} announces more"
                    " values than the chunk can hold"
                )
            np.multiply(counts[:, i], item_bytes, out=ends[:, i + 1], dtype=np.int64)
            ends[:, i + 1] += ends[:, i]
        # Counts are not negative, so all fields lie within the record if the last one ends with it.
        if (wrong := ends[:, -1] != places[:, 1]).any():
            first = int(wrong.argmax())
            raise FormatError(
                f"record {first} of the chunk ends {places[first, 1] - ends[first, -1]} bytes from"
                " where its counts say"
            )
        return ends


def record_places(framing: memoryview, num_records: int) -> _Ints:
    """Return the offsets of start and end of records in a framing, shape ``(num_records, 2)``.

    Raises:
        FormatError: ``num_records`` records do not end exactly where the framing ends.
    """
    bounds = np.frombuffer(record_bounds(framing, num_records), np.int64)
    places = np.empty((num_records, 2), np.int64)
    np.add(bounds[:-1], LENGTH_BYTES, out=places[:, 0])
    places[:, 1] = bounds[1:]
    return places


def frame_records(records: NDArray[np.void] | Sequence[bytes]) -> memoryview:
    """Return the framing of records: bytes, or an array ``(n,)`` of records of one size."""
    if not isinstance(records, np.ndarray):
        pairs = ((len(record).to_bytes(LENGTH_BYTES, "little"), record) for record in records)
        return memoryview(b"".join(chain.from_iterable(pairs)))
    framed = np.empty(len(records), [(_LENGTH, "<u4"), ("record", records.dtype)])
    framed[_LENGTH], framed["record"] = records.itemsize, records
    return framed.view(np.uint8).data


def require_booleans(name: str, values: NDArray[np.uint8]) -> None:
    """Refuse bytes of booleans that are neither 0 nor 1.

    Raises:
        FormatError: There is such a byte.
    """
    # numpy gives inconsistent results for a bool with any other bit pattern.
    if (values > 1).any():
        raise FormatError(f"field {name!r} holds a byte that is neither 0 nor 1")


def _require_boolean_runs(field: Field, framing: memoryview, runs: _Ints) -> None:
    """Refuse runs of booleans, offsets ``(n, 2)``, ascending, with bytes other than 0 and 1."""
    full = runs[runs[:, 0] < runs[:, 1]].reshape(-1)
    if len(full):
        # ``full`` alternates starts and ends. reduceat gives the maximum of each stretch between
        # neighbours; every second stretch is a run, the others are the gaps between runs. The last
        # run ends with the data, which are cut there.
        data = np.frombuffer(framing, np.uint8)[: full[-1]]
        require_booleans(field.name, np.maximum.reduceat(data, full[:-1])[::2])


def _places(schema: Schema) -> tuple[FieldPlace, ...]:
    bits = {field.name: bit for bit, field in enumerate(schema.optional)}
    # Read once: numpy builds this mapping at every access, and there may be ten thousand fields.
    entries: Mapping[str, Any] = schema.fixed_dtype.fields or {}
    return tuple(
        FieldPlace(
            field.name,
            entries[field.name][1],
            field.values_dtype,
            field.item_shape,
            bits.get(field.name),
        )
        for field in schema
        if field.is_fixed
    )


# --- Columns of many samples to records, without a step per sample


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

"""Records to samples, one by one or a whole chunk at a time; no count and no length is trusted."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import FormatError
from trainfeed.samples._column_memory import ColumnMemory, items_dtype
from trainfeed.samples._schema import PRESENCE, Field, Schema

__all__ = [
    "SampleDecoder",
    "Value",
    "masked_where_absent",
    "presence_bits",
    "require_booleans",
    "variable_value",
]

Value: TypeAlias = NDArray[Any] | bytes | str | None

_LENGTH: Final = "_length"
_STRAY_BIT: Final = "a presence bit is set beyond those of the optional fields"


class _FieldPlace(NamedTuple):
    """Where a field of fixed size lies in a record."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset_bytes: int


class SampleDecoder:
    """Decodes records of one schema."""

    def __init__(self, schema: Schema) -> None:
        fixed_bytes = schema.fixed_dtype.itemsize
        self._names = schema.names
        self._optional = schema.optional
        self._presence_bytes = schema.presence_bytes
        self._fixed = [field for field in schema if field.is_fixed]
        self._variable = [field for field in schema if not field.is_fixed]
        self._places = [_place(field, schema) for field in self._fixed]
        self._booleans = [place for place in self._places if place.dtype.kind == "b"]
        self._unaligned = [
            place.name for place in self._places if place.offset_bytes % place.dtype.itemsize
        ]
        self._counts = struct.Struct(f"<{fixed_bytes}x{len(self._variable)}I")
        self._items = items_dtype(schema)
        self._framed = np.dtype([(_LENGTH, "<u4"), ("fixed", schema.fixed_dtype)])

    def decode(self, record: bytes | memoryview) -> dict[str, Value]:
        """Return the sample of a record, in memory of its own.

        Raises:
            FormatError: The record is none of this schema.
        """
        if len(record) < self._counts.size:
            raise FormatError(
                f"expected a record of at least {self._counts.size} bytes, got {len(record)}"
            )
        head = bytearray(record[: self._counts.size])
        for place in self._booleans:
            require_booleans(
                place.name, np.ndarray(place.shape, np.uint8, head, place.offset_bytes)
            )
        arrays = {
            name: np.ndarray(shape, dtype, head, offset_bytes)
            for name, shape, dtype, offset_bytes in self._places
        }
        # Records are packed; arrays that are not aligned trip other libraries, and slow all down.
        for name in self._unaligned:
            arrays[name] = arrays[name].copy()
        values: dict[str, Value] = {**arrays}
        values.update(self._variable_values(record, self._counts.unpack(head)))
        if self._optional:
            self._take_out_absent(values, head)
        return {name: values[name] for name in self._names}

    def decode_records(self, framing: memoryview, num_records: int) -> dict[str, NDArray[Any]]:
        """Return the fields of all records of a chunk, for schemas of fixed size.

        Args:
            framing: Records with their lengths, as chunks hold them.
            num_records: As the chunk's header has it.

        Returns:
            Per field an array of shape ``(num_records, *field.shape)``, in memory of its own. That
            of an optional field is a masked array; where it is masked, the data are zeros.

        Raises:
            FormatError: The framing does not hold ``num_records`` records of this schema.
        """
        return self.columns_of(self.view_records(framing, num_records))

    def columns_of(self, records: NDArray[np.void]) -> dict[str, NDArray[Any]]:
        """Return the fields of records as ``view_records`` gives them, in memory of their own.

        Raises:
            FormatError: A presence bit is set that belongs to no field.
        """
        items = records.view(self._items)
        return self._masked(
            {field.name: _column(items[field.name], field) for field in self._fixed}, records
        )

    def iter_batches(
        self,
        records: NDArray[np.void],
        num_samples: int,
        memory: ColumnMemory,
        *,
        num_missing: int = 0,
    ) -> Iterator[tuple[dict[str, NDArray[Any]], int]]:
        """Yield the same cut into batches; see ``TypedCodec.iter_batches``.

        Raises:
            FormatError: A presence bit is set that belongs to no field.
        """
        items = records.view(self._items)
        fields = [items[field.name] for field in self._fixed]
        for start, end in _part_bounds(len(records), memory.num_samples, num_missing):
            # A part is as much as stays in the processor's cache until it is copied.
            block, size = memory.take(), end - start
            for target, values in zip(block.items, fields, strict=True):
                target[:size] = values[start:end]
            columns = block.columns
            if self._optional:
                # Arrays of their own: the block counts those, and not what a mask wraps.
                columns = {name: column[:size] for name, column in columns.items()}
                columns = self._masked(columns, records[start:end])
            for first in range(0, size, num_samples):
                last = min(first + num_samples, size)
                yield {name: column[first:last] for name, column in columns.items()}, last - first
            memory.give(block)

    def view_records(self, framing: memoryview, num_records: int) -> NDArray[np.void]:
        """Return all records of a chunk without copying them, for schemas of fixed size.

        Returns:
            Shape ``(num_records,)``, dtype ``schema.record_dtype``; a view into ``framing``.

        Raises:
            FormatError: The framing does not hold ``num_records`` records of this schema.
        """
        if self._variable:
            names = [field.name for field in self._variable]
            raise ValueError(f"records have no common size, the fields {names} vary")
        if len(framing) != num_records * self._framed.itemsize:
            raise FormatError(
                f"expected {num_records} records of {self._counts.size} bytes each, got"
                f" {len(framing)} bytes with the lengths"
            )
        # numpy takes no empty buffer.
        framed = np.frombuffer(framing, self._framed) if num_records else np.empty(0, self._framed)
        self._check_lengths(framed[_LENGTH])
        fixed: NDArray[np.void] = framed["fixed"]
        for place in self._booleans:
            require_booleans(place.name, fixed[place.name].view(np.uint8))
        return fixed

    def _masked(
        self, columns: dict[str, NDArray[Any]], records: NDArray[np.void]
    ) -> dict[str, NDArray[Any]]:
        """Mask the optional fields where they are absent."""
        if self._optional:
            bits = presence_bits(records, len(self._optional))
            for i, field in enumerate(self._optional):
                columns[field.name] = masked_where_absent(columns[field.name], bits[:, i])
        return columns

    def _variable_values(
        self, record: bytes | memoryview, counts: tuple[int, ...]
    ) -> dict[str, Value]:
        values = {}
        end = self._counts.size
        for field, count in zip(self._variable, counts, strict=True):
            start = end
            end += count * math.prod(field.item_shape) * field.values_dtype.itemsize
            if end > len(record):
                break
            values[field.name] = variable_value(field, record[start:end])
        if end != len(record):
            raise FormatError(f"expected a record of {end} bytes by its counts, got {len(record)}")
        return values

    def _take_out_absent(self, values: dict[str, Value], head: bytearray) -> None:
        present = int.from_bytes(head[: self._presence_bytes], "little")
        if present >> len(self._optional):
            raise FormatError(_STRAY_BIT)
        for i, field in enumerate(self._optional):
            if present >> i & 1:
                continue
            value = values[field.name]
            if not field.is_fixed and value is not None and len(value):
                raise FormatError(f"field {field.name!r} is absent and holds {len(value)} values")
            values[field.name] = None

    def _check_lengths(self, lengths: NDArray[np.uint32]) -> None:
        expected = self._counts.size
        if (lengths != expected).any():
            first = int(np.argmax(lengths != expected))
            raise FormatError(
                f"record {first} of the chunk has {lengths[first]} bytes, the schema's have"
                f" {expected}"
            )


def _column(values: NDArray[Any], field: Field) -> NDArray[Any]:
    """Return the values of a field, as ``items_dtype`` has them, in memory of their own."""
    column = values.copy()
    if column.dtype is field.values_dtype or column.dtype.kind != "V":
        return column
    return column.view(field.values_dtype).reshape(len(values), *field.item_shape)


def _part_bounds(
    num_records: int, part_records: int, num_missing: int
) -> Iterator[tuple[int, int]]:
    """Yield start and end of parts, of which the first has ``num_missing`` if those are any."""
    start, end = 0, num_missing or part_records
    while start < num_records:
        yield start, min(end, num_records)
        start, end = end, end + part_records


def _place(field: Field, schema: Schema) -> _FieldPlace:
    # Of this field alone: there may be ten thousand, and each asks.
    fields = schema.fixed_dtype.fields
    assert fields is not None  # noqa: S101 - for the type checker
    return _FieldPlace(field.name, field.item_shape, field.values_dtype, fields[field.name][1])


def variable_value(field: Field, data: bytes | memoryview) -> Value:
    """Return the value of a field of variable size, in memory of its own.

    Raises:
        FormatError: Text is not UTF-8, or a boolean neither true nor false.
    """
    if field.dtype == "bytes":
        return bytes(data)
    if field.dtype == "str":
        try:
            return str(data, "utf-8")
        except UnicodeDecodeError as error:
            raise FormatError(f"field {field.name!r} holds no UTF-8: {error}") from error
    values = np.frombuffer(bytearray(data), field.values_dtype)
    if values.dtype.kind == "b":
        require_booleans(field.name, values.view(np.uint8))
    return values.reshape(-1, *field.item_shape)


def presence_bits(fixed: NDArray[np.void], num_optional: int) -> NDArray[np.bool_]:
    """Return which records have which optional field, shape ``(n, num_optional)``.

    Raises:
        FormatError: A bit beyond those is set.
    """
    bits = np.unpackbits(fixed[PRESENCE], axis=1, bitorder="little")
    if bits[:, num_optional:].any():
        raise FormatError(_STRAY_BIT)
    return bits[:, :num_optional].astype(bool)


def masked_where_absent(
    column: NDArray[Any], present: NDArray[np.bool_]
) -> np.ma.MaskedArray[Any, Any]:
    """Return a column of an optional field, shape ``(n, *shape)``, masked where it is absent."""
    absent = np.logical_not(present).reshape(-1, *(1 for _ in column.shape[1:]))
    return np.ma.MaskedArray(column, np.broadcast_to(absent, column.shape))


def require_booleans(name: str, values: NDArray[np.uint8]) -> None:
    """Refuse what is neither true nor false.

    Raises:
        FormatError: A byte is.
    """
    # A bool of another bit pattern is neither true nor false to numpy.
    if np.any(values > 1):
        raise FormatError(f"field {name!r} holds a byte that is neither 0 nor 1")

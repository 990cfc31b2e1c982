"""Records to samples, one by one or by chunks; every count and length is verified."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import FormatError
from trainfeed.samples._column_memory import ColumnMemory, items_dtype
from trainfeed.samples._presence import masked_rows
from trainfeed.samples._record_layout import RecordLayout, require_booleans
from trainfeed.samples._schema import Field, Schema

__all__ = ["SampleDecoder", "Value", "variable_value"]

Value: TypeAlias = NDArray[Any] | bytes | str | None


class SampleDecoder:
    """Decodes records of one schema.

    Args:
        schema: The schema.
        layout: The layout of its records.
    """

    def __init__(self, schema: Schema, layout: RecordLayout) -> None:
        self._layout = layout
        self._names = schema.names
        self._has_optional = bool(schema.optional)
        self._variable = layout.variable
        self._variable_names = [field.name for field in layout.variable]
        self._unaligned = layout.unaligned(0, 0)
        num_counts = len(layout.variable)
        self._counts = struct.Struct(f"<{schema.fixed_dtype.itemsize}x{num_counts}I")
        self._items = items_dtype(schema)

    def decode(self, record: bytes | memoryview) -> dict[str, Value]:
        """Return the sample of a record, in memory of its own.

        Raises:
            FormatError: The record does not match the schema.
        """
        if len(record) < self._counts.size:
            raise FormatError(
                f"expected a record of at least {self._counts.size} bytes, got {len(record)}"
            )
        head = bytearray(record[: self._counts.size])
        for place in self._layout.booleans:
            require_booleans(
                place.name, np.ndarray(place.item_shape, np.uint8, head, place.offset_bytes)
            )
        arrays = {
            name: np.ndarray(shape, dtype, head, offset_bytes)
            for name, offset_bytes, dtype, shape, _ in self._layout.places
        }
        # Records are packed, so fields may be unaligned. Other libraries refuse unaligned arrays,
        # and all code is slower on them.
        for name in self._unaligned:
            arrays[name] = arrays[name].copy()
        values: dict[str, Value] = {**arrays}
        counts = self._counts.unpack(head)
        values.update(self._variable_values(record, counts))
        if self._has_optional:
            named = dict(zip(self._variable_names, counts, strict=True))
            for name in self._layout.presence.absent_in(head, named):
                values[name] = None
        return {name: values[name] for name in self._names}

    def decode_records(self, framing: memoryview, num_records: int) -> dict[str, NDArray[Any]]:
        """Return the fields of all records of a chunk, for schemas of fixed size.

        Args:
            framing: Records with their lengths, as chunks hold them.
            num_records: Number of records in the chunk's header.

        Returns:
            Per field an array of shape ``(num_records, *field.shape)``, in memory of its own; for
            an optional field a masked array, whose data are zeros where it is masked.

        Raises:
            FormatError: The framing does not hold ``num_records`` records of this schema.
        """
        return self.columns_of(self.view_records(framing, num_records))

    def columns_of(self, records: NDArray[np.void]) -> dict[str, NDArray[Any]]:
        """Return the fields of records from ``view_records``, in memory of their own.

        Raises:
            FormatError: A presence bit is set beyond those of the optional fields.
        """
        items = records.view(self._items)
        return self._masked(
            {field.name: _column(items[field.name], field) for field in self._layout.fixed}, records
        )

    def iter_batches(
        self,
        records: NDArray[np.void],
        num_samples: int,
        memory: ColumnMemory,
        *,
        num_missing: int = 0,
    ) -> Iterator[tuple[dict[str, NDArray[Any]], int]]:
        """Yield the fields in batches; see ``TypedCodec.iter_batches``.

        Raises:
            FormatError: A presence bit is set beyond those of the optional fields.
        """
        items = records.view(self._items)
        fields = [items[field.name] for field in self._layout.fixed]
        for start, end in _part_bounds(len(records), memory.num_samples, num_missing):
            # A part is as large as one block, which fits into the cache of the processor.
            block, size = memory.take(), end - start
            for target, values in zip(block.items, fields, strict=True):
                target[:size] = values[start:end]
            columns = block.columns
            if self._has_optional:
                # New views: a masked array refers to its data array, and the block would not
                # notice a reference to one of its own columns.
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
        layout = self._layout
        layout.require_size(num_records, len(framing))
        framed = np.frombuffer(framing, layout.framed)
        layout.require_fixed(framed)
        records: NDArray[np.void] = framed["record"]
        return records

    def _masked(
        self, columns: dict[str, NDArray[Any]], records: NDArray[np.void]
    ) -> dict[str, NDArray[Any]]:
        """Return the columns with optional fields masked where they are absent."""
        self._layout.presence.require_known(records)
        for name, absent in self._layout.presence.absent(records).items():
            columns[name] = masked_rows(columns[name], absent)
        return columns

    def _variable_values(
        self, record: bytes | memoryview, counts: tuple[int, ...]
    ) -> dict[str, Value]:
        values = {}
        end = self._counts.size
        for field, count in zip(self._variable, counts, strict=True):
            start = end
            end += count * field.item_bytes
            if end > len(record):
                break
            value = values[field.name] = variable_value(field, record[start:end])
            if field.dtype == "bool":
                require_booleans(field.name, np.asarray(value).view(np.uint8))
        if end != len(record):
            raise FormatError(f"expected a record of {end} bytes by its counts, got {len(record)}")
        return values


def _column(values: NDArray[Any], field: Field) -> NDArray[Any]:
    """Return a copy of a column of ``items_dtype`` with the dtype and shape of the field."""
    column = values.copy()
    if column.dtype is field.values_dtype or column.dtype.kind != "V":
        return column
    return column.view(field.values_dtype).reshape(len(values), *field.item_shape)


def _part_bounds(
    num_records: int, part_records: int, num_missing: int
) -> Iterator[tuple[int, int]]:
    """Yield start and end of parts; the first has ``num_missing`` records unless that is 0."""
    start, end = 0, num_missing or part_records
    while start < num_records:
        yield start, min(end, num_records)
        start, end = end, end + part_records


def variable_value(field: Field, data: bytes | memoryview) -> Value:
    """Return the value of a field of variable size, in memory of its own.

    Raises:
        FormatError: Text is not UTF-8.
    """
    if field.dtype == "bytes":
        return bytes(data)
    if field.dtype == "str":
        try:
            return str(data, "utf-8")
        except UnicodeDecodeError as error:
            raise FormatError(f"field {field.name!r} holds no UTF-8: {error}") from error
    return np.frombuffer(bytearray(data), field.values_dtype).reshape(-1, *field.item_shape)

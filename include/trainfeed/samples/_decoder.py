"""Records to samples, one by one or a whole chunk at a time; no count and no length is trusted."""

from __future__ import annotations

import math
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import FormatError
from trainfeed.samples._schema import PRESENCE, Field, Schema

__all__ = ["SampleDecoder", "Value"]

Value: TypeAlias = NDArray[Any] | bytes | str | None

_LENGTH: Final = "_length"


class SampleDecoder:
    """Decodes records of one schema."""

    def __init__(self, schema: Schema) -> None:
        self._fixed = [field for field in schema if field.is_fixed]
        self._variable = [field for field in schema if not field.is_fixed]
        self._optional = schema.optional
        self._names = schema.names
        counts = ("counts", "<u4", (len(self._variable),))
        self._head = np.dtype([("fixed", schema.fixed_dtype), counts])
        self._framed = np.dtype([(_LENGTH, "<u4"), ("fixed", schema.fixed_dtype)])

    def decode(self, record: bytes | memoryview) -> dict[str, Value]:
        """Return the sample of a record, in memory of its own.

        Raises:
            FormatError: The record is none of this schema.
        """
        if len(record) < self._head.itemsize:
            raise FormatError(
                f"expected a record of at least {self._head.itemsize} bytes, got {len(record)}"
            )
        head = np.frombuffer(record, self._head, 1)
        fixed = head["fixed"]
        _check_booleans(self._fixed, fixed)
        values: dict[str, Value] = {
            field.name: fixed[field.name].reshape(field.item_shape).copy() for field in self._fixed
        }
        values.update(self._variable_values(record, head["counts"][0].tolist()))
        if self._optional:
            self._take_out_absent(values, fixed)
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
        if self._variable:
            names = [field.name for field in self._variable]
            raise ValueError(f"records have no common size, the fields {names} vary")
        if len(framing) != num_records * self._framed.itemsize:
            raise FormatError(
                f"expected {num_records} records of {self._head.itemsize} bytes each, got"
                f" {len(framing)} bytes with the lengths"
            )
        # numpy takes no empty buffer.
        rows = np.frombuffer(framing if num_records else bytes(1), np.uint8)
        framed = rows[: len(framing)].view(self._framed)
        self._check_lengths(framed[_LENGTH])
        fixed = framed["fixed"]
        _check_booleans(self._fixed, fixed)
        columns = {field.name: fixed[field.name].copy() for field in self._fixed}
        if self._optional:
            _mask_absent(columns, self._optional, fixed)
        return columns

    def _variable_values(self, record: bytes | memoryview, counts: list[int]) -> dict[str, Value]:
        values = {}
        end = self._head.itemsize
        for field, count in zip(self._variable, counts, strict=True):
            start = end
            end += count * math.prod(field.item_shape) * field.values_dtype.itemsize
            if end > len(record):
                break
            values[field.name] = _variable_value(field, record[start:end])
        if end != len(record):
            raise FormatError(f"expected a record of {end} bytes by its counts, got {len(record)}")
        return values

    def _take_out_absent(self, values: dict[str, Value], fixed: NDArray[np.void]) -> None:
        present = _presence(self._optional, fixed)[0]
        for field, is_present in zip(self._optional, present, strict=True):
            if is_present:
                continue
            value = values[field.name]
            if not field.is_fixed and value is not None and len(value):
                raise FormatError(f"field {field.name!r} is absent and holds {len(value)} values")
            values[field.name] = None

    def _check_lengths(self, lengths: NDArray[np.uint32]) -> None:
        expected = self._head.itemsize
        if np.any(lengths != expected):
            first = int(np.argmax(lengths != expected))
            raise FormatError(
                f"record {first} of the chunk has {lengths[first]} bytes, the schema's have"
                f" {expected}"
            )


def _variable_value(field: Field, data: bytes | memoryview) -> Value:
    if field.dtype == "bytes":
        return bytes(data)
    if field.dtype == "str":
        try:
            return str(data, "utf-8")
        except UnicodeDecodeError as error:
            raise FormatError(f"field {field.name!r} holds no UTF-8: {error}") from error
    values = np.frombuffer(bytearray(data), field.values_dtype)
    _check_boolean(field, values)
    return values.reshape(-1, *field.item_shape)


def _presence(optional: tuple[Field, ...], fixed: NDArray[np.void]) -> NDArray[np.bool_]:
    """Return who has what, shape ``(len(fixed), len(optional))``."""
    bits = np.unpackbits(fixed[PRESENCE], axis=1, bitorder="little")
    if bits[:, len(optional) :].any():
        raise FormatError(f"a presence bit is set beyond the {len(optional)} optional fields")
    return bits[:, : len(optional)].astype(bool)


def _mask_absent(
    columns: dict[str, NDArray[Any]], optional: tuple[Field, ...], fixed: NDArray[np.void]
) -> None:
    absent = ~_presence(optional, fixed)
    for i, field in enumerate(optional):
        column = columns[field.name]
        rows = absent[:, i].reshape(-1, *(1 for _ in field.shape))
        columns[field.name] = np.ma.MaskedArray(column, np.broadcast_to(rows, column.shape))


def _check_booleans(fields: list[Field], fixed: NDArray[np.void]) -> None:
    for field in fields:
        if field.dtype == "bool":
            _check_boolean(field, fixed[field.name])


def _check_boolean(field: Field, values: NDArray[Any]) -> None:
    # A bool of another bit pattern is neither true nor false to numpy.
    if values.dtype.kind == "b" and np.any(values.view(np.uint8) > 1):
        raise FormatError(f"field {field.name!r} holds a byte that is neither 0 nor 1")

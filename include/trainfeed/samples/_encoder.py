"""Samples to records, by functions that are made once per schema: they run for every sample.

The record layout::

    record   := presence? fixed* count* variable*
    presence := bit i, least significant first, of ceil(optional fields / 8) bytes
    fixed    := the values of a field of fixed size, C order, zeros where it is absent
    count    := uint32 per variable field: rows, or bytes of bytes and str
    variable := the values of a field of variable size

Fields are in schema order, packed, little-endian. One call of ``struct`` packs presence, fixed
fields and counts. Values of common Python and numpy types are its direct arguments; other values
are converted to arrays first. When the direct call fails, the conversion to arrays finds the
error.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from trainfeed.errors import SampleShapeError
from trainfeed.samples._field_values import as_array, as_bytes
from trainfeed.samples._schema import Field, Schema

__all__ = ["SampleEncoder"]

_CODES: Final = {
    "bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q",
    "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q",
    "float16": "e", "float32": "f", "float64": "d",
}  # fmt: skip
# Lists whose items all have these types need no check of each item. A list of ints with a bool
# among them does: bool is a subclass of int, so exact types are compared.
_LISTS: Final = (list, tuple)
_PLAIN: Final = {
    "b": frozenset({bool}),
    "i": frozenset({int}),
    "u": frozenset({int}),
    "f": frozenset({float, int}),
}

# Errors of the direct call for values of a wrong type or range.
_REFUSALS: Final = (
    SampleShapeError,
    KeyError,
    TypeError,
    ValueError,
    OverflowError,
    struct.error,
)

_Fixed: TypeAlias = Callable[[Any], Any]
_Variable: TypeAlias = Callable[[Any], tuple[int, bytes]]


class _FixedField(NamedTuple):
    """The part of a field of fixed size in the ``struct`` call.

    Attributes:
        code: The field's part of the format.
        absent: The argument for an absent field.
        convert: Function from a value to the argument.
    """

    code: str
    absent: Any
    convert: _Fixed


class SampleEncoder:
    """Encodes samples of one schema."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._names = frozenset(schema.names)
        self._bits = [(field.name, 1 << i) for i, field in enumerate(schema.optional)]
        plans = {field.name: _fixed_field(field) for field in schema if field.is_fixed}
        codes = "".join(plan.code for plan in plans.values())
        self._fixed = [
            (name, _or_absent(plan.convert, plan.absent, schema[name]))
            for name, plan in plans.items()
        ]
        self._variable = [
            (field.name, _or_absent(_variable_field(field), (0, b""), field))
            for field in schema
            if not field.is_fixed
        ]
        presence = f"{schema.presence_bytes}s" if schema.optional else ""
        self._pack = struct.Struct(f"<{presence}{codes}{len(self._variable)}I").pack
        self._encode = self._encode_optional if schema.optional else self._encode_required

    def encode(self, sample: Mapping[str, Any]) -> bytes:
        """Return the record of a sample.

        Raises:
            SampleShapeError: Sample and schema disagree.
        """
        try:
            return self._encode(sample)
        except _REFUSALS as refusal:
            cause = refusal
        self._explain(sample)
        raise SampleShapeError(f"sample does not fit a record: {cause}") from cause

    def _encode_required(self, sample: Mapping[str, Any]) -> bytes:
        if len(sample) != len(self._names):
            raise KeyError
        fixed = [convert(sample[name]) for name, convert in self._fixed]
        if not self._variable:
            return self._pack(*fixed)
        variable = [convert(sample[name]) for name, convert in self._variable]
        head = self._pack(*fixed, *[count for count, _ in variable])
        return b"".join([head, *[data for _, data in variable]])

    def _encode_optional(self, sample: Mapping[str, Any]) -> bytes:
        if not self._names.issuperset(sample):
            raise KeyError
        get = sample.get
        present = 0
        for name, bit in self._bits:
            if get(name) is not None:
                present |= bit
        fixed = [convert(get(name)) for name, convert in self._fixed]
        variable = [convert(get(name)) for name, convert in self._variable]
        presence = present.to_bytes(self._schema.presence_bytes, "little")
        head = self._pack(presence, *fixed, *[count for count, _ in variable])
        return b"".join([head, *[data for _, data in variable]])

    def _explain(self, sample: Mapping[str, Any]) -> None:
        """Raise the error of the first field with a wrong value; return if there is none."""
        if not isinstance(sample, Mapping):
            raise SampleShapeError(
                f"expected a mapping from field to value, got a {type(sample).__name__}"
            )
        if unknown := [name for name in sample if name not in self._names]:
            raise SampleShapeError(
                f"expected the fields {list(self._schema.names)}, got also {unknown}"
            )
        for field in self._schema:
            if sample.get(field.name) is None:
                if not field.optional:
                    got = "None" if field.name in sample else "nothing"
                    raise SampleShapeError(
                        f"field {field.name!r}: expected {field}, got {got}; return a value, or"
                        " make the field optional"
                    )
            elif field.is_text:
                as_bytes(field, sample[field.name])
            else:
                as_array(field, sample[field.name])


def _or_absent(convert: Callable[[Any], Any], absent: Any, field: Field) -> Callable[[Any], Any]:
    """Return ``convert``, for an optional field with None mapped to ``absent``."""
    if not field.optional:
        return convert
    return lambda value: absent if value is None else convert(value)


def _fixed_field(field: Field) -> _FixedField:
    if not field.shape:
        return _FixedField(_CODES[field.dtype], 0, _scalar(field))
    num_values = math.prod(field.item_shape)
    num_bytes = num_values * field.values_dtype.itemsize
    return _FixedField(f"{num_bytes}s", bytes(num_bytes), _fixed_array(field, num_values))


def _scalar(field: Field) -> _Fixed:
    # struct accepts values of these types directly, and refuses numbers that are out of range.
    natural = {"b": bool, "f": float}.get(field.values_dtype.kind, int)
    same = field.values_dtype.type

    def convert(value: Any) -> Any:
        kind = type(value)
        if kind is natural or kind is same:
            return value
        return as_array(field, value).item()

    return convert


def _fixed_array(field: Field, num_values: int) -> _Fixed:
    dtype, shape = field.values_dtype, field.item_shape
    pack = struct.Struct(f"<{num_values}{_CODES[field.dtype]}").pack
    plain, is_vector = _PLAIN[dtype.kind], len(shape) == 1

    def convert(value: Any) -> bytes:
        kind = type(value)
        if kind is np.ndarray:
            if value.dtype == dtype and value.shape == shape:
                return value.tobytes()  # type: ignore[no-any-return]
        elif is_vector and kind in _LISTS and plain.issuperset(map(type, value)):
            return pack(*value)
        return as_array(field, value).tobytes()

    return convert


def _variable_field(field: Field) -> _Variable:
    return _text(field) if field.is_text else _variable_array(field)


def _text(field: Field) -> _Variable:
    is_str = field.dtype == "str"

    def convert(value: Any) -> tuple[int, bytes]:
        data = value.encode() if is_str and type(value) is str else as_bytes(field, value)
        return len(data), data

    return convert


def _variable_array(field: Field) -> _Variable:
    dtype, rest = field.values_dtype, field.item_shape
    num_dimensions = 1 + len(rest)
    code, plain = _CODES[field.dtype], _PLAIN[dtype.kind]

    def convert(value: Any) -> tuple[int, bytes]:
        kind = type(value)
        if kind is np.ndarray:
            if value.dtype == dtype and value.ndim == num_dimensions and value.shape[1:] == rest:
                return len(value), value.tobytes()
        elif not rest and kind in _LISTS and plain.issuperset(map(type, value)):
            return len(value), struct.pack(f"<{len(value)}{code}", *value)
        array = as_array(field, value)
        return len(array), array.tobytes()

    return convert

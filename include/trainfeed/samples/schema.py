"""The schema of samples, and values as arrays of its fields, present or absent."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import ConfigError, FormatError, SampleShapeError

# --- The schema of samples: fields with name, type and shape

# Names of fields never start with an underscore, so this name cannot collide.
PRESENCE: Final = "_presence"

# Words between single separators, as 'image/encoded' in TFRecords and 'image.bytes' in a struct.
# Spaces, commas, '..', '//' and control characters are excluded, because they have a meaning in
# lists, paths and text. Names with a leading underscore are reserved for internal columns.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]*(?:[./-][A-Za-z0-9_]+)*")
_MAX_NAME_CHARS: Final = 128
_NUMBERS: Final = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64",
)  # fmt: skip
_TEXTS: Final = ("bytes", "str")
_KEYS: Final = frozenset({"name", "dtype", "shape", "optional"})
# numpy stores the size of a dtype in 32 bits.
_MAX_FIXED_BYTES: Final = (1 << 31) - 1


@dataclass(frozen=True)
class Field:
    """One field of a sample.

    Attributes:
        name: Words of letters, digits and underscores, no underscore first, with one ``/``, ``.``
            or ``-`` between two; at most 128 characters.
        dtype: ``bool``, ``int8`` to ``uint64``, ``float16`` to ``float64``, ``bytes`` or ``str``.
        shape: Lengths from 1 on; None as the first length means that it varies from sample to
            sample. Empty for scalars, and for bytes and str.
        optional: Whether a sample may lack the field.

    Raises:
        ConfigError: An attribute has another value.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...] = ()
    optional: bool = False

    def __post_init__(self) -> None:
        if len(self.name) > _MAX_NAME_CHARS or not _NAME.fullmatch(self.name):
            raise ConfigError(
                "expected a field name of letters, digits and _, no _ first, with single '/', '.'"
                f" or '-' between words, at most {_MAX_NAME_CHARS} characters, got"
                f" {self.name[:200]!r}; rename the field or column"
            )
        if self.dtype not in _NUMBERS + _TEXTS:
            known = ", ".join(_NUMBERS + _TEXTS)
            raise ConfigError(f"field {self.name!r}: expected one of {known}, got {self.dtype!r}")
        if self.is_text and self.shape:
            raise ConfigError(f"field {self.name!r}: {self.dtype} has no shape, got {self.shape}")
        if not all(_is_length(length, first=not i) for i, length in enumerate(self.shape)):
            raise ConfigError(
                f"field {self.name!r}: expected lengths from 1 on, or null as the first, got"
                f" {list(self.shape)}"
            )

    @property
    def is_text(self) -> bool:
        """Whether the field holds bytes or str, not numbers."""
        return self.dtype in _TEXTS

    @property
    def is_fixed(self) -> bool:
        """Whether the field takes the same number of bytes in every sample."""
        return not self.is_text and None not in self.shape

    @property
    def item_shape(self) -> tuple[int, ...]:
        """The shape without the variable length."""
        return tuple(length for length in self.shape if length is not None)

    @cached_property
    def values_dtype(self) -> np.dtype[Any]:
        """The little-endian dtype of the values; ``uint8`` for bytes and str."""
        return np.dtype("u1") if self.is_text else np.dtype(self.dtype).newbyteorder("<")

    @cached_property
    def item_bytes(self) -> int:
        """Bytes of a value; with a variable length, bytes of one entry along it."""
        return math.prod(self.item_shape) * self.values_dtype.itemsize

    def __str__(self) -> str:
        lengths = ", ".join("n" if length is None else str(length) for length in self.shape)
        return f"{self.dtype} ({lengths})" if self.shape else self.dtype


@dataclass(frozen=True)
class Schema:
    """The fields of a sample, in the order in which records hold them.

    Attributes:
        fields: At least one field; all names differ.

    Raises:
        ConfigError: There is no field, or two have the same name, or fields of fixed size exceed 2
            GiB.
    """

    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        if not self.fields:
            raise ConfigError("expected a schema with at least one field, got none")
        if len(self._by_name) < len(self.fields):
            raise ConfigError(f"expected different field names, got {list(self.names)}")
        num_bytes = sum(field.item_bytes for field in self.fields if field.is_fixed)
        if num_bytes > _MAX_FIXED_BYTES:
            raise ConfigError(f"expected fields of at most 2 GiB together, got {num_bytes} bytes")

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> Schema:
        """Return the schema that ``to_json`` gave as JSON values.

        Raises:
            ConfigError: ``value`` is not a schema.
        """
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise ConfigError(f"expected a list of fields, got {type(value).__name__}")
        return cls(tuple(_field_from_json(entry) for entry in value))

    def to_json(self) -> list[dict[str, Any]]:
        """Return name, dtype and shape of every field, and ``optional`` where it is true."""
        return [
            {"name": field.name, "dtype": field.dtype, "shape": list(field.shape)}
            | ({"optional": True} if field.optional else {})
            for field in self.fields
        ]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all fields."""
        return tuple(field.name for field in self.fields)

    @property
    def optional(self) -> tuple[Field, ...]:
        """The fields that a sample may lack; the i-th has the i-th presence bit."""
        return tuple(field for field in self.fields if field.optional)

    @property
    def presence_bytes(self) -> int:
        """Number of bytes with presence bits at the start of a record."""
        return -(-len(self.optional) // 8)

    @property
    def is_fixed(self) -> bool:
        """Whether all records have the same length, so that a chunk is one structured array."""
        return all(field.is_fixed for field in self.fields)

    @cached_property
    def record_dtype(self) -> np.dtype[np.void]:
        """A record as a packed structured dtype, for schemas of fixed size.

        If there are optional fields, the first field, ``_presence``, holds the presence bits.
        """
        if not self.is_fixed:
            variable = [field.name for field in self.fields if not field.is_fixed]
            raise ValueError(f"records have no common size, the fields {variable} vary")
        return self.fixed_dtype

    @cached_property
    def fixed_dtype(self) -> np.dtype[np.void]:
        """The start of a record, presence and fixed fields, as a packed structured dtype."""
        presence = [(PRESENCE, "u1", (self.presence_bytes,))] if self.optional else []
        fixed = [
            (field.name, field.values_dtype, field.item_shape)
            for field in self.fields
            if field.is_fixed
        ]
        return np.dtype([*presence, *fixed])

    def __getitem__(self, name: str) -> Field:
        """Return the field called ``name``."""
        return self._by_name[name]

    def __iter__(self) -> Iterator[Field]:
        """Go through the fields in order."""
        return iter(self.fields)

    @cached_property
    def _by_name(self) -> dict[str, Field]:
        return {field.name: field for field in self.fields}


def _is_length(value: object, *, first: bool) -> bool:
    if value is None:
        return first
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _field_from_json(entry: Any) -> Field:
    if not isinstance(entry, dict) or not {"name", "dtype"} <= entry.keys() <= _KEYS:
        raise ConfigError(f"expected a field with name, dtype, shape and optional, got {entry!r}")
    shape, optional = entry.get("shape", []), entry.get("optional", False)
    if not isinstance(shape, list | tuple) or not isinstance(optional, bool):
        raise ConfigError(f"expected shape as a list and optional as true or false, got {entry!r}")
    if not isinstance(entry["name"], str) or not isinstance(entry["dtype"], str):
        raise ConfigError(f"expected name and dtype as text, got {entry!r}")
    return Field(entry["name"], entry["dtype"], tuple(shape), optional)


# --- Values of a sample as arrays of their field's dtype and shape, without loss

_MAX_TEXT: Final = 60  # characters of a value in a message
_NOT_WHOLE: Final = "a value is no whole number"
_ACCEPTED: Final = {"b": "b", "i": "iuf", "u": "iuf", "f": "iuf"}
_LEAVES: Final[dict[str, tuple[type, ...]]] = {
    "b": (bool, np.bool_),
    "i": (int, float, np.integer, np.floating),
    "u": (int, float, np.integer, np.floating),
    "f": (int, float, np.integer, np.floating),
}


def as_array(field: Field, value: object, *leading: int) -> NDArray[Any]:
    """Return a value as an array of the field's dtype and shape.

    Args:
        field: A field of numbers.
        value: An array, a number, or nested lists of numbers.
        leading: Dimensions of ``value`` before those of the field.

    Returns:
        Shape ``(*leading, *field.shape)``, the field's dtype, contiguous; ``value`` itself if it
        has these properties.

    Raises:
        SampleShapeError: ``value`` has another shape or type, or a number that the dtype cannot
            hold.
    """
    shape = (*leading, *field.shape)
    # The common case first: nothing to convert.
    if type(value) is np.ndarray and value.shape == shape and value.dtype == field.values_dtype:
        return np.ascontiguousarray(value)
    if isinstance(value, np.ma.MaskedArray):
        refuse(field, value, "samples hold no masked values; fill them")
    if isinstance(value, np.ndarray | np.generic):
        array: NDArray[Any] = np.asarray(value)
    else:
        array = _from_python(field, value)
    if array.dtype.kind not in _ACCEPTED[field.values_dtype.kind]:
        refuse(field, value)
    return np.ascontiguousarray(_cast(field, _fit(field, array, shape, value), value))


def as_bytes(field: Field, value: object) -> bytes:
    """Return a value of a field of bytes or str as bytes, text in UTF-8.

    Raises:
        SampleShapeError: The value has another type, or is text with a lone surrogate.
    """
    if field.dtype == "str":
        if not isinstance(value, str):
            refuse(field, value)
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            refuse(field, value, str(error))
    if not isinstance(value, bytes | bytearray | memoryview):
        refuse(field, value)
    return bytes(value)


def refuse(field: Field, value: object, reason: str = "") -> NoReturn:
    """Raise the error with the field, its expected type, and the value.

    Raises:
        SampleShapeError: Always.
    """
    because = f": {reason}" if reason else ""
    raise SampleShapeError(
        f"field {field.name!r}: expected {field}, got {_describe(value)}{because}"
    )


def _describe(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} {value.shape}"
    if isinstance(value, list | tuple):
        kinds = sorted({type(item).__name__ for item in value})
        return f"a {type(value).__name__} of {len(value)} {' and '.join(kinds) or 'items'}"
    if isinstance(value, bool | int | float | np.generic) or value is None:
        return _short(value)
    return f"a {type(value).__name__}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"


def _from_python(field: Field, value: object) -> NDArray[Any]:
    """Return Python numbers as an array that holds each of them exactly."""
    try:
        # As objects, because numpy would round large integers to floats, and turn bools into
        # numbers.
        objects = np.array(value, dtype=object)
    except ValueError:
        refuse(field, value, "rows of different length")
    leaves = objects.ravel().tolist()
    kind = field.values_dtype.kind
    if any(isinstance(leaf, list | tuple | np.ndarray) for leaf in leaves):
        refuse(field, value, "rows of different length")
    for leaf in leaves:
        # bool is a subclass of int; stored as 1, a wrong value would be noticed late or never.
        if not isinstance(leaf, _LEAVES[kind]) or (kind != "b" and isinstance(leaf, bool)):
            refuse(field, value, f"{_short(leaf)} is no {field.dtype}")
    if kind in "iu":
        leaves = [_to_int(field, leaf, value) for leaf in leaves]
    try:
        # All floats go through float64, so that they are rounded to the field's precision once.
        dtype = np.dtype(np.float64) if kind == "f" else field.values_dtype
        return np.array(leaves, dtype).reshape(objects.shape)
    except OverflowError:
        refuse(field, value, _limits(field))


def _to_int(field: Field, leaf: Any, value: object) -> int:
    if isinstance(leaf, float | np.floating) and not leaf.is_integer():
        refuse(field, value, _NOT_WHOLE)
    return int(leaf)


def _fit(
    field: Field, array: NDArray[Any], shape: tuple[int | None, ...], value: object
) -> NDArray[Any]:
    if array.shape == shape:
        return array
    if len(array.shape) == len(shape) and all(
        length in {None, actual} for length, actual in zip(shape, array.shape, strict=True)
    ):
        return array
    # The shape of an empty list tells nothing about the length of its rows.
    if array.shape == (0,) and shape[:1] == (None,):
        return array.reshape(0, *field.item_shape)
    refuse(field, value, f"the shape is {array.shape}")


def _cast(field: Field, array: NDArray[Any], value: object) -> NDArray[Any]:
    dtype = field.values_dtype
    if array.dtype == dtype:
        return array
    if dtype.kind == "f":
        # An overflow becomes infinity, which is refused below unless the value was infinite
        # already. A signalling NaN of another precision is a NaN like others.
        with np.errstate(over="ignore", invalid="ignore"):
            result = array.astype(dtype)
        if not np.isfinite(result).all() and np.any(np.isinf(result) & np.isfinite(array)):
            refuse(field, value, _limits(field))
        return result
    if array.dtype.kind == "f":
        return _whole(field, array, value)
    result = array.astype(dtype)
    if not np.can_cast(array.dtype, dtype) and not np.array_equal(result, array):
        refuse(field, value, _limits(field))
    return result


def _whole(field: Field, array: NDArray[Any], value: object) -> NDArray[Any]:
    if not np.all(np.isfinite(array) & (array == np.rint(array))):
        refuse(field, value, _NOT_WHOLE)
    limits = np.iinfo(field.values_dtype)
    # Compared as Python numbers: a float64 cannot represent the largest int64 exactly.
    if array.size and (int(array.min()) < limits.min or int(array.max()) > limits.max):
        refuse(field, value, _limits(field))
    return array.astype(field.values_dtype)


def _limits(field: Field) -> str:
    if field.values_dtype.kind == "f":
        return f"a value is beyond {np.finfo(field.values_dtype).max}"
    limits = np.iinfo(field.values_dtype)
    return f"a value is outside {limits.min} to {limits.max}"


# --- Arrays of values that no schema describes: numpy chooses the type, and no value may change

# Kinds of numpy types whose values an array of the same type holds as they are. Texts are not
# among them: numpy takes the zeros off their ends.
_KEPT_KINDS: Final = frozenset("biufcmM")
_LISTS: Final = (list, tuple)
_ARRAYS: Final = (np.ndarray, np.generic)


def array_of(value: object) -> NDArray[Any]:
    """Return the array that numpy makes of a value, if each number and text in it stays as it is.

    In lists, numpy rounds whole numbers beside floats to float64, makes numbers of bools and texts
    of numbers, and cuts zeros at the end of texts. It also drops masks.

    Args:
        value: An array, a number, or nested lists; other objects give an array of objects.

    Raises:
        SampleShapeError: A value would change, or is masked.
        ValueError: Lists have different lengths.
    """
    if not isinstance(value, _LISTS):
        if isinstance(value, np.ma.MaskedArray):
            _require_whole(value)
        return np.asarray(value)
    kinds = _kinds(value)
    array: NDArray[Any] = np.asarray(value)
    if not _is_surely_kept(kinds, array):
        _require_kept(value, array)
    return array


def _is_surely_kept(kinds: set[Any], array: NDArray[Any]) -> bool:
    """Return whether the types alone tell that no value changes; true of nearly all lists."""
    if array.dtype.kind == "O":
        return True
    if len(kinds) > 1:
        return False
    return all(
        kind in {float, bool, complex}
        or (kind is int and array.dtype.kind in "iu")
        or (isinstance(kind, np.dtype) and kind.kind in _KEPT_KINDS)
        for kind in kinds
    )


def _kinds(level: Sequence[Any]) -> set[Any]:
    """Return the types of what nested lists hold, of arrays their dtypes.

    A list of numbers is as long as numpy can make it: no step here is one of Python for each.
    """
    kinds: set[Any] = set()
    while True:
        types = set(map(type, level))
        lists = {each for each in types if issubclass(each, _LISTS)}
        arrays = {each for each in types if issubclass(each, _ARRAYS)}
        kinds |= types - lists - arrays
        if arrays:
            for each in level:
                if isinstance(each, np.ma.MaskedArray):
                    _require_whole(each)
                if isinstance(each, _ARRAYS):
                    kinds.add(each.dtype)
        if not lists:
            return kinds
        level = [*chain.from_iterable(each for each in level if isinstance(each, _LISTS))]


def _require_whole(array: NDArray[Any]) -> None:
    if np.ma.is_masked(array):
        raise SampleShapeError(
            "expected values that are all there, got a masked array; fill it, and give the mask as"
            " a field of its own"
        )


def _require_kept(value: object, array: NDArray[Any]) -> None:
    given = np.array(value, dtype=object).ravel().tolist()
    for before, after in zip(given, array.ravel().tolist(), strict=True):
        if not _is_same(before, after):
            raise SampleShapeError(
                f"expected values that one type holds, got {before!r:.80}, which would become"
                f" {after!r:.80}; give arrays of the type that you need, or fields of their own"
            )


def _is_same(before: Any, after: Any) -> bool:
    if isinstance(before, np.generic):
        # Numbers of Python are compared exactly, those of numpy in a common type.
        before = before.item()
    if isinstance(before, bool) is not isinstance(after, bool):
        return False
    # NaN differs from itself.
    return bool(before == after) or bool(before != before and after != after)  # noqa: PLR0124


# --- Presence of optional fields: bits in records, masks in arrays

_STRAY_BIT: Final = "a presence bit is set beyond those of the optional fields"


class Presence:
    """The presence bits of the records of a schema; threads may share the object.

    Args:
        optional: The optional fields of the schema; the i-th has the i-th bit.
    """

    def __init__(self, optional: tuple[Field, ...]) -> None:
        self._optional = optional
        self._num_bytes = -(-len(optional) // 8)

    def absent_in(self, head: bytearray, counts: Mapping[str, int]) -> list[str]:
        """Return the names of the fields that a record lacks.

        Args:
            head: The start of the record.
            counts: Number of values per field of variable size.

        Raises:
            FormatError: A bit is set beyond those of the optional fields, or an absent field has
                values.
        """
        # Optional field i has bit i % 8 of byte i // 8, so the bytes are one little-endian number.
        present = int.from_bytes(head[: self._num_bytes], "little")
        if present >> len(self._optional):
            raise FormatError(_STRAY_BIT)
        absent = [field.name for i, field in enumerate(self._optional) if not present >> i & 1]
        for name in absent:
            if num_values := counts.get(name, 0):
                raise _values_of_absent(name, num_values)
        return absent

    def require_known(self, records: NDArray[np.void]) -> None:
        """Refuse structured records, shape ``(n,)``, with bits beyond those of the optional fields.

        Raises:
            FormatError: A record has such a bit.
        """
        # Only the last byte can have unused bits; with 0 all its bits are used.
        num_used = len(self._optional) % 8
        if num_used and (records[PRESENCE][:, -1] >> num_used).any():
            raise FormatError(_STRAY_BIT)

    def absent(self, records: NDArray[np.void]) -> dict[str, NDArray[np.bool_]]:
        """Return per optional field an array ``(n,)``: True for records that lack the field."""
        if not self._optional:
            return {}
        bits = np.unpackbits(
            records[PRESENCE], axis=1, count=len(self._optional), bitorder="little"
        )
        # Transposed, so that the mask of a field is contiguous.
        absent = np.equal(bits.T, 0, order="C")
        return {field.name: row for field, row in zip(self._optional, absent, strict=True)}


def set_bits(bits: NDArray[np.uint8], number: int, present: NDArray[np.bool_]) -> None:
    """Set a presence bit in the records that have its field.

    Args:
        bits: The presence bits of records, shape ``(n, presence_bytes)``.
        number: Number of the field among the optional fields.
        present: True for records that have the field, shape ``(n,)``.
    """
    # Byte ``number // 8`` of all records at once.
    bits[:, number // 8] |= present.astype(np.uint8) << number % 8


def require_no_values(field: Field, absent: NDArray[np.bool_], bounds: NDArray[np.int64]) -> None:
    """Refuse records with values of a field that their presence bits mark as absent.

    Args:
        field: A field of variable size.
        absent: True for records that lack the field, shape ``(n,)``.
        bounds: Offsets of start and end of the field's values per record, shape ``(n, 2)``.

    Raises:
        FormatError: A record has such values.
    """
    if (wrong := absent & (bounds[:, 0] != bounds[:, 1])).any():
        start, end = bounds[wrong][0].tolist()
        raise _values_of_absent(field.name, (end - start) // field.item_bytes)


def _values_of_absent(name: str, num_values: int) -> FormatError:
    return FormatError(f"field {name!r} is absent and holds {num_values} values")


def masked_rows(column: NDArray[Any], absent: NDArray[np.bool_]) -> np.ma.MaskedArray[Any, Any]:
    """Return a column of shape ``(n, *S)`` masked where ``absent``, ``(n,)``, is True."""
    mask = absent.reshape(-1, *(1 for _ in column.shape[1:]))
    return np.ma.MaskedArray(column, np.broadcast_to(mask, column.shape))


def absent_rows(column: NDArray[Any]) -> NDArray[np.bool_]:
    """Return True for rows of a column ``(n, *S)`` that are masked, in whole or in part."""
    mask = np.ma.getmaskarray(column)
    return np.asarray(mask.any(axis=tuple(range(1, mask.ndim))))


def rows_or_none(column: NDArray[Any]) -> Iterable[Any]:
    """Return the rows of a column of shape ``(n, *S)`` one by one, None for masked rows.

    Rows are views of the column, or numbers if it has one dimension.
    """
    if not isinstance(column, np.ma.MaskedArray):
        return column
    pairs = zip(column.data, absent_rows(column).tolist(), strict=True)
    return (None if is_absent else value for value, is_absent in pairs)


def joined_columns(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the rows of all parts of a column, masked where any part has a mask."""
    if any(isinstance(part, np.ma.MaskedArray) for part in parts):
        joined: NDArray[Any] = np.ma.concatenate(parts)  # type: ignore[no-untyped-call]
        return joined
    return np.concatenate(parts)


def present_rows(field: Field, column: NDArray[Any] | None, num_samples: int) -> NDArray[np.bool_]:
    """Return True for samples that have an optional field, shape ``(num_samples,)``.

    Raises:
        SampleShapeError: Part of a row is masked.
    """
    if column is None:
        return np.zeros(num_samples, dtype=bool)
    # The length is given, not -1: without rows numpy could not compute it.
    masked = np.ma.getmaskarray(column).reshape(num_samples, math.prod(column.shape[1:]))
    absent = absent_rows(column)
    if np.any(absent != masked.all(axis=1)):
        refuse(field, column, "a row is masked in part; mask whole rows, or fill the values")
    return np.logical_not(absent)

"""The schema of samples: fields with name, type and shape."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from trainfeed.errors import ConfigError

__all__ = ["PRESENCE", "Field", "Schema"]

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

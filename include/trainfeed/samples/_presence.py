"""Presence of optional fields: bits in records, masks in arrays.

A record of a schema with optional fields begins with one bit per optional field. In a column of
fixed size, a masked array has the same information: whole rows are masked, and their data are
zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import FormatError
from trainfeed.samples._field_values import refuse
from trainfeed.samples._schema import PRESENCE, Field

__all__ = [
    "Presence",
    "absent_rows",
    "joined_columns",
    "masked_rows",
    "present_rows",
    "require_no_values",
    "rows_or_none",
    "set_bits",
]

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
        absent = np.equal(bits.T, 0, order="C")
        return {field.name: row for field, row in zip(self._optional, absent, strict=True)}


def set_bits(bits: NDArray[np.uint8], number: int, present: NDArray[np.bool_]) -> None:
    """Set a presence bit in the records that have its field.

    Args:
        bits: The presence bits of records, shape ``(n, presence_bytes)``.
        number: Number of the field among the optional fields.
        present: True for records that have the field, shape ``(n,)``.
    """
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

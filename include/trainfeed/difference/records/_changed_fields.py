"""The fields in which samples of one position differ, for many samples at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainfeed.samples import Schema, TypedCodec, absent_rows, frame_records

__all__ = ["FieldComparison"]

_Mask = NDArray[np.bool_]


class FieldComparison:
    """Compares records of two schemas by the values of the fields that both have.

    Args:
        first: Schema of the one version.
        second: That of the other.

    Attributes:
        has_equal_schemas: Whether records with equal bytes are equal samples, and others are not.
    """

    def __init__(self, first: Schema, second: Schema) -> None:
        self._codecs = TypedCodec(first), TypedCodec(second)
        self._names = [name for name in first.names if name in second.names]
        self.has_equal_schemas = first == second

    def differing(
        self, first: NDArray[np.object_], second: NDArray[np.object_]
    ) -> Mapping[str, _Mask]:
        """Return, for each common field, which pairs of records differ in it; shape (n,).

        Raises:
            FormatError: A record does not match its schema.
        """
        if not len(first):
            return {name: np.zeros(0, bool) for name in self._names}
        columns, others = (
            codec.decode_columns(frame_records(records.tolist()), len(records))
            for codec, records in zip(self._codecs, (first, second), strict=True)
        )
        return {name: _differs(columns[name], others[name]) for name in self._names}

    def samples(self, first: bytes | None, second: bytes | None) -> tuple[Any, Any]:
        """Return the samples of two records; None for a record that is not there."""
        found = (
            None if record is None else codec.decode(record)
            for codec, record in zip(self._codecs, (first, second), strict=True)
        )
        one, other = found
        return one, other


def _differs(column: NDArray[Any], other: NDArray[Any]) -> _Mask:
    if "O" in {column.dtype.kind, other.dtype.kind}:
        pairs = zip(column.tolist(), other.tolist(), strict=True)
        return np.fromiter((not _same(a, b) for a, b in pairs), bool, len(column))
    absent, others = absent_rows(column), absent_rows(other)
    values = _values_differ(np.ma.getdata(column), np.ma.getdata(other))
    return np.asarray((absent != others) | (values & ~absent & ~others))


def _values_differ(column: NDArray[Any], other: NDArray[Any]) -> _Mask:
    num_rows = len(column)
    if column.shape != other.shape:
        return np.ones(num_rows, bool)
    if column.dtype == other.dtype:
        # By bytes: a NaN is equal to itself.
        first, second = (_bytes(each).reshape(num_rows, -1) for each in (column, other))
        return np.asarray((first != second).any(axis=1))
    differ = (column != other) & ~(np.isnan(column) & np.isnan(other))
    return np.asarray(differ.reshape(num_rows, -1).any(axis=1))


def _bytes(column: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(column).reshape(len(column), -1).view(np.uint8)


def _same(first: Any, second: Any) -> bool:
    """Return whether two values of fields of variable size are equal."""
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        if first.dtype == second.dtype:
            return first.shape == second.shape and first.tobytes() == second.tobytes()
        return bool(np.array_equal(first, second, equal_nan=True))
    return type(first) is type(second) and bool(first == second)

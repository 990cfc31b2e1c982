"""The protocol of a field of many samples, and fields of one size, which are arrays."""

from __future__ import annotations

import math
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import SampleShapeError
from trainfeed.loader.columns._lent_memory import ALIGNMENT_BYTES, Memory
from trainfeed.samples import masked_rows

__all__ = [
    "Column",
    "ColumnTarget",
    "Columns",
    "Dense",
    "DenseTarget",
    "Rows",
    "Values",
    "count_rows",
]

Rows: TypeAlias = slice | NDArray[np.int64]
Values: TypeAlias = NDArray[Any]


class ColumnTarget(Protocol):
    """A field of a batch that is being put together."""

    def column(self) -> Column:
        """Return the finished field."""


class Column(Protocol):
    """A field of many samples."""

    def __len__(self) -> int: ...

    def array(self, start: int, stop: int) -> Values:
        """Return the values of some samples, masked or None where the field is absent."""

    def owned(self, start: int, stop: int) -> Values:
        """Return the same values in memory that nothing else refers to."""

    def num_bytes(self, start: int, stop: int) -> int:
        """Return how many bytes the values of some samples have."""

    def put_into(self, target: ColumnTarget, where: Rows, rows: Rows) -> None:
        """Copy ``rows`` of this column to the rows ``where`` of a target.

        Raises:
            SampleShapeError: The target is for values of another type or shape.
        """

    def target(self, num_samples: int, memory: Memory) -> ColumnTarget:
        """Return a target for ``num_samples`` samples of this kind."""

    def num_target_bytes(self, num_samples: int) -> int:
        """Return how many bytes ``target`` takes from its memory."""


Columns: TypeAlias = dict[str, Column]


class Dense:
    """One value per sample, all of one shape; see ``Column``.

    Attributes:
        values: Shape ``(n, *S)``.
        absent: True for samples without the field, shape ``(n,)``; None if no sample lacks it.
    """

    __slots__ = ("absent", "values")

    def __init__(self, values: Values, absent: NDArray[np.bool_] | None = None) -> None:
        self.values = values
        self.absent = absent

    def __len__(self) -> int:
        return len(self.values)

    def array(self, start: int, stop: int) -> Values:
        """Return the values of some samples as views, masked where the field is absent."""
        values = self.values[start:stop]
        return values if self.absent is None else masked_rows(values, self.absent[start:stop])

    def owned(self, start: int, stop: int) -> Values:
        """Return copies of the values of some samples; objects are not copied."""
        values = self.array(start, stop)
        return values if values.dtype.kind == "O" else values.copy()

    def num_bytes(self, start: int, stop: int) -> int:
        """Return how many bytes the values of some samples have."""
        values = self.values[start:stop]
        return values.nbytes if values.dtype.kind != "O" else _object_bytes(values)

    def put_into(self, target: ColumnTarget, where: Rows, rows: Rows) -> None:
        """Copy ``rows`` to the rows ``where`` of a target; see ``Column``."""
        found = self.values
        if not isinstance(target, DenseTarget):
            raise SampleShapeError(
                f"{found.dtype}{found.shape[1:]} in some samples, runs in others"
            )
        expected = target.values
        if found.dtype != expected.dtype or found.shape[1:] != expected.shape[1:]:
            raise SampleShapeError(
                f"{found.dtype}{found.shape[1:]} in some samples,"
                f" {expected.dtype}{expected.shape[1:]} in others"
            )
        # One numpy call copies all rows: for large batches this is most of the work.
        expected[where] = found[rows]
        if self.absent is not None:
            target.absent[where] = self.absent[rows]

    def target(self, num_samples: int, memory: Memory) -> DenseTarget:
        """Return a target for ``num_samples`` samples of this kind."""
        shape, dtype = (num_samples, *self.values.shape[1:]), self.values.dtype
        # Memory that is used again must not hold references to objects: they would never be freed.
        has_objects = dtype.kind == "O"
        values = np.empty(shape, dtype) if has_objects else memory.array(shape, dtype)
        return DenseTarget(values, optional=self.absent is not None)

    def num_target_bytes(self, num_samples: int) -> int:
        """Return how many bytes ``target`` takes from its memory."""
        size = self.values.itemsize * math.prod(self.values.shape[1:])
        return 0 if self.values.dtype.kind == "O" else num_samples * size + ALIGNMENT_BYTES


class DenseTarget:
    """An array for one value per sample; see ``ColumnTarget``.

    Attributes:
        values: Shape ``(n, *S)``.
        absent: True for samples without the field, shape ``(n,)``; empty for a required field.
    """

    def __init__(self, values: Values, *, optional: bool) -> None:
        self.values = values
        self._optional = optional
        self.absent: NDArray[np.bool_] = np.zeros(len(values) if optional else 0, bool)

    def column(self) -> Dense:
        """Return the finished field."""
        return Dense(self.values, self.absent if self._optional else None)


def count_rows(rows: Rows, num_samples: int) -> int:
    """Return how many of ``num_samples`` samples ``rows`` choose."""
    return len(range(*rows.indices(num_samples))) if isinstance(rows, slice) else len(rows)


def _object_bytes(values: Values) -> int:
    return sum(
        value.nbytes if isinstance(value, np.ndarray) else len(value)
        for value in values.tolist()
        if value is not None
    )

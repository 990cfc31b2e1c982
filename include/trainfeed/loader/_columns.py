"""The fields of many samples: arrays where the size is fixed, places in buffers where it varies."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import FormatError, SampleShapeError
from trainfeed.loader._memory import ALIGNMENT_BYTES, Memory

__all__ = [
    "Column",
    "Columns",
    "Dense",
    "Permuted",
    "Ragged",
    "Rows",
    "Target",
    "Values",
    "count_rows",
    "put_rows",
    "targets_for",
]

Rows: TypeAlias = slice | NDArray[np.int64]
Values: TypeAlias = NDArray[Any]


class Dense:
    """One value per sample, all of one shape.

    Attributes:
        values: Shape ``(n, *S)``.
        absent: Which samples lack the field, shape ``(n,)``; None for none.
    """

    __slots__ = ("absent", "values")

    def __init__(self, values: Values, absent: NDArray[np.bool_] | None = None) -> None:
        self.values = values
        self.absent = absent

    def __len__(self) -> int:
        return len(self.values)

    def array(self, start: int, stop: int) -> Values:
        """Return what users get of some samples: views, masked where the field is absent."""
        values = self.values[start:stop]
        if self.absent is None:
            return values
        mask = self.absent[start:stop].reshape(-1, *(1 for _ in values.shape[1:]))
        return np.ma.MaskedArray(values, np.broadcast_to(mask, values.shape))

    def put_into(self, target: Target, where: Rows, rows: Rows) -> None:
        """Copy ``rows`` to the places ``where`` of a target."""
        target.values[where] = self.values[rows]
        if self.absent is not None:
            target.absent[where] = self.absent[rows]

    def target(self, num_samples: int, memory: Memory | None = None) -> Target:
        """Return memory for ``num_samples`` of such samples."""
        shape, dtype = (num_samples, *self.values.shape[1:]), self.values.dtype
        if memory is None or dtype.kind == "O":
            values = np.empty(shape, dtype)
        else:
            values = memory.array(shape, dtype)
        return Target(values, optional=self.absent is not None)

    def num_target_bytes(self, num_samples: int) -> int:
        """Return what ``target`` takes of its memory."""
        size = self.values.itemsize * math.prod(self.values.shape[1:])
        return 0 if self.values.dtype.kind == "O" else num_samples * size + ALIGNMENT_BYTES


class Permuted(Dense):
    """One value per sample, picked from others only when they are wanted.

    Saves writing and reading all of them once more, for whoever puts batches together anyway.

    Attributes:
        order: Which of ``values``, and of ``absent``, comes when, shape ``(n,)``.
    """

    __slots__ = ("order",)

    def __init__(
        self, values: Values, absent: NDArray[np.bool_] | None, order: NDArray[np.int64]
    ) -> None:
        super().__init__(values, absent)
        self.order = order

    def __len__(self) -> int:
        return len(self.order)

    def array(self, start: int, stop: int) -> Values:
        """Return what users get of some samples: arrays of their own."""
        return self._picked(slice(start, stop)).array(0, stop - start)

    def put_into(self, target: Target, where: Rows, rows: Rows) -> None:
        """Copy ``rows`` to the places ``where`` of a target."""
        self._picked(rows).put_into(target, where, slice(None))

    def _picked(self, rows: Rows) -> Dense:
        picks = self.order[rows]
        return Dense(self.values[picks], None if self.absent is None else self.absent[picks])


@dataclass(frozen=True)
class Ragged:
    """One run of bytes per sample, which is bytes, a text, or an array of any length.

    Attributes:
        buffers: Where the bytes are.
        places: Number of the buffer, start and end therein per sample, shape ``(n, 3)``.
        kind: ``"bytes"``, ``"str"``, or the dtype of an array's values.
        item_shape: Shape of one value of an array.
        absent: Which samples lack the field, shape ``(n,)``; None for none.
    """

    buffers: Sequence[memoryview]
    places: NDArray[np.int64]
    kind: str
    item_shape: tuple[int, ...] = ()
    absent: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.places)

    def array(self, start: int, stop: int) -> Values:
        """Return what users get of some samples: objects of their own, None where absent."""
        target = self.target(stop - start)
        self.put_into(target, slice(None), slice(start, stop))
        return target.values

    def put_into(self, target: Target, where: Rows, rows: Rows) -> None:
        """Make the values of ``rows`` and put them to the places ``where`` of a target."""
        chosen = self._select(rows)
        make, buffers = _maker(self.kind, self.item_shape), self.buffers
        items = [make(buffers[b][start:end]) for b, start, end in chosen.places.tolist()]
        if chosen.absent is not None:
            for i in np.flatnonzero(chosen.absent).tolist():
                items[i] = None
        boxed = np.empty(len(items), object)
        for i, item in enumerate(items):  # as a list, numpy would stack arrays of equal lengths
            boxed[i] = item
        target.values[where] = boxed

    def target(self, num_samples: int, _memory: Memory | None = None) -> Target:
        """Return memory for ``num_samples`` of such samples."""
        return Target(np.empty(num_samples, object), optional=False)

    def num_target_bytes(self, _num_samples: int) -> int:
        """Return 0: objects have memory of their own."""
        return 0

    def sizes(self) -> NDArray[np.int64]:
        """Return how many bytes each sample has, shape ``(n,)``."""
        return np.asarray(self.places[:, 2] - self.places[:, 1])

    def _select(self, rows: Rows) -> Ragged:
        absent = None if self.absent is None else self.absent[rows]
        return Ragged(self.buffers, self.places[rows], self.kind, self.item_shape, absent)


Column: TypeAlias = Dense | Ragged
Columns: TypeAlias = dict[str, Column]


class Target:
    """A field of a batch that is being put together.

    Attributes:
        values: Shape ``(n, *S)``.
        absent: Which samples lack the field, shape ``(n,)``; empty when it is not optional.
    """

    def __init__(self, values: Values, *, optional: bool) -> None:
        self.values = values
        self._optional = optional
        self.absent: NDArray[np.bool_] = np.zeros(len(values) if optional else 0, bool)

    def column(self) -> Dense:
        """Return the finished field."""
        return Dense(self.values, self.absent if self._optional else None)


def _maker(kind: str, item_shape: tuple[int, ...]) -> Callable[[memoryview], Any]:
    """Return what makes a value of a ragged column from its bytes."""
    if kind == "bytes":
        return bytes
    if kind == "str":
        return _text
    dtype = np.dtype(kind)
    return lambda data: np.frombuffer(bytearray(data), dtype).reshape(-1, *item_shape)


def _text(data: memoryview) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"a field of text holds no UTF-8: {error}") from error


def count_rows(rows: Rows, num_samples: int) -> int:
    """Return how many of ``num_samples`` samples ``rows`` choose."""
    return len(range(*rows.indices(num_samples))) if isinstance(rows, slice) else len(rows)


def targets_for(
    columns: Columns, num_samples: int, memory: Memory | None = None
) -> dict[str, Target]:
    """Return memory for ``num_samples`` samples like those of columns.

    Args:
        columns: Tell fields, types and shapes.
        num_samples: How many samples.
        memory: Where to put the arrays; None for fresh ones.
    """
    if memory is not None:
        memory.reserve(sum(column.num_target_bytes(num_samples) for column in columns.values()))
    return {name: column.target(num_samples, memory) for name, column in columns.items()}


def put_rows(columns: Columns, targets: dict[str, Target], where: Rows, rows: Rows) -> None:
    """Copy ``rows`` of columns to the places ``where`` of targets.

    Args:
        columns: The columns.
        targets: By field; see ``targets_for``.
        where: Places in the targets.
        rows: As many rows of the columns.

    Raises:
        SampleShapeError: These columns differ from the first ones in fields, types or shapes.
    """
    if columns.keys() != targets.keys():
        raise SampleShapeError(
            f"some samples have the fields {list(columns)}, others {list(targets)}"
        )
    for name, column in columns.items():
        target = targets[name].values
        if isinstance(column, Dense):
            found, expected = column.values, target
            if found.dtype != expected.dtype or found.shape[1:] != expected.shape[1:]:
                raise SampleShapeError(
                    f"field {name!r} is {found.dtype}{found.shape[1:]} in some samples,"
                    f" {expected.dtype}{expected.shape[1:]} in others"
                )
        column.put_into(targets[name], where, rows)

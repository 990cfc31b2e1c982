"""Batches that are being put together from the columns of several windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import SampleShapeError
from trainfeed.loader.columns._field_columns import Columns, ColumnTarget, Rows
from trainfeed.loader.columns._lent_memory import FreshMemory, Memory
from trainfeed.loader.columns._scatter import SampleLayout, Scattered

__all__ = ["Targets", "array_targets", "joined", "targets_for"]


class Targets(Protocol):
    """Arrays for all fields of the samples of a batch."""

    def put(self, columns: Columns, where: Rows, rows: Rows) -> None:
        """Copy ``rows`` of columns to the rows ``where``; the caller may then drop the columns.

        Raises:
            SampleShapeError: These columns differ from the first ones in fields, types or shapes.
        """

    def columns(self, num_samples: int) -> Columns:
        """Return the finished fields of the first ``num_samples`` samples."""


class _FieldTargets:
    """One target per field; see ``Targets``."""

    def __init__(self, targets: dict[str, ColumnTarget]) -> None:
        self._targets = targets

    def put(self, columns: Columns, where: Rows, rows: Rows) -> None:
        """Copy ``rows`` of columns to the rows ``where``; see ``Targets``."""
        if columns.keys() != self._targets.keys():
            raise SampleShapeError(
                f"some samples have the fields {list(columns)}, others {list(self._targets)}"
            )
        for name, column in columns.items():
            try:
                column.put_into(self._targets[name], where, rows)
            except SampleShapeError as error:
                raise SampleShapeError(f"field {name!r} is {error}") from None

    def columns(self, _num_samples: int) -> Columns:
        """Return the finished fields."""
        return {name: target.column() for name, target in self._targets.items()}


class _ScatteredTargets:
    """The addresses of samples, which are all copied by ``columns``; see ``Targets``.

    Args:
        layout: The layout of the samples.
        num_samples: Number of samples.
        memory: Memory for the copies.
    """

    def __init__(self, layout: SampleLayout, num_samples: int, memory: Memory) -> None:
        self._layout = layout
        self._memory = memory
        self._addresses: NDArray[np.int64] = np.zeros(num_samples, np.int64)
        self._owners: dict[int, Sequence[object]] = {}

    def put(self, columns: Columns, where: Rows, rows: Rows) -> None:
        """Note the addresses of ``rows`` of columns; see ``Targets``."""
        if not isinstance(columns, Scattered) or columns.layout is not self._layout:
            raise SampleShapeError("some samples are of another layout than others")
        self._addresses[where] = columns.addresses[rows]
        # The caller may drop its columns; the memory behind the addresses must stay.
        self._owners[id(columns.owners)] = columns.owners

    def columns(self, num_samples: int) -> Columns:
        """Return the first samples, whose addresses must all be set."""
        owners = list(self._owners.values())
        found = Scattered(self._layout, self._addresses[:num_samples], owners)
        return found.in_memory(self._memory)


def targets_for(columns: Columns, num_samples: int, memory: Memory) -> Targets:
    """Return targets for ``num_samples`` samples like those of columns.

    Args:
        columns: Samples whose fields, types and shapes the targets get.
        num_samples: Number of samples.
        memory: Memory for the arrays of the targets.
    """
    if isinstance(columns, Scattered):
        return _ScatteredTargets(columns.layout, num_samples, memory)
    return array_targets(columns, num_samples, memory)


def array_targets(columns: Columns, num_samples: int, memory: Memory) -> Targets:
    """Return targets that copy at once, which samples of any layouts fit; see ``targets_for``."""
    memory.reserve(sum(column.num_target_bytes(num_samples) for column in columns.values()))
    return _FieldTargets(
        {name: column.target(num_samples, memory) for name, column in columns.items()}
    )


def joined(pieces: Sequence[tuple[Columns, Rows, int]]) -> Columns:
    """Return the samples of several columns as one set of columns.

    Args:
        pieces: Tuples of columns, the rows to take, and the number of these rows.
    """
    total = sum(count for _, _, count in pieces)
    # Targets of addresses accept scattered columns only; targets of arrays accept both kinds. So
    # the first column that is not scattered decides.
    like = next((own for own, _, _ in pieces if not isinstance(own, Scattered)), pieces[0][0])
    targets, end = targets_for(like, total, FreshMemory()), 0
    for columns, rows, count in pieces:
        targets.put(columns, slice(end, end + count), rows)
        end += count
    return targets.columns(total)

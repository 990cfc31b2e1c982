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

__all__ = ["Targets", "joined", "targets_for"]


class Targets(Protocol):
    """Room for all fields of some samples."""

    def put(self, columns: Columns, where: Rows, rows: Rows) -> None:
        """Put ``rows`` of columns to the places ``where``; the columns may then be dropped.

        Raises:
            SampleShapeError: These columns differ from the first ones in fields, types or shapes.
        """

    def columns(self, num_samples: int) -> Columns:
        """Return the finished fields; the first ``num_samples`` samples count."""


class _FieldTargets:
    """Room for one field after the other; see ``Targets``."""

    def __init__(self, targets: dict[str, ColumnTarget]) -> None:
        self._targets = targets

    def put(self, columns: Columns, where: Rows, rows: Rows) -> None:
        """Put ``rows`` of columns to the places ``where``; see ``Targets``."""
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
    """Room for the addresses of samples, which are picked together in the end; see ``Targets``.

    Args:
        layout: That of the samples.
        num_samples: How many.
        memory: Where to put what is picked.
    """

    def __init__(self, layout: SampleLayout, num_samples: int, memory: Memory) -> None:
        self._layout = layout
        self._memory = memory
        self._addresses: NDArray[np.int64] = np.zeros(num_samples, np.int64)
        self._owners: dict[int, Sequence[object]] = {}

    def put(self, columns: Columns, where: Rows, rows: Rows) -> None:
        """Note where ``rows`` of columns are; see ``Targets``."""
        if not isinstance(columns, Scattered) or columns.layout is not self._layout:
            raise SampleShapeError("some samples are of another layout than others")
        self._addresses[where] = columns.addresses[rows]
        self._owners[id(columns.owners)] = columns.owners

    def columns(self, num_samples: int) -> Columns:
        """Return the first samples, all of which were put; called once."""
        return dict(self._layout.pick(self._addresses[:num_samples], self._memory))


def targets_for(columns: Columns, num_samples: int, memory: Memory) -> Targets:
    """Return room for ``num_samples`` samples like those of columns.

    Args:
        columns: Tell fields, types and shapes.
        num_samples: How many samples.
        memory: Where to put arrays that are copied to.
    """
    if isinstance(columns, Scattered):
        return _ScatteredTargets(columns.layout, num_samples, memory)
    memory.reserve(sum(column.num_target_bytes(num_samples) for column in columns.values()))
    return _FieldTargets(
        {name: column.target(num_samples, memory) for name, column in columns.items()}
    )


def joined(pieces: Sequence[tuple[Columns, Rows, int]]) -> Columns:
    """Return samples of several columns one after another.

    Args:
        pieces: Columns, rows of them, and how many these are.
    """
    total = sum(count for _, _, count in pieces)
    # Room for addresses takes nothing else, other room takes samples that have addresses too.
    like = next((own for own, _, _ in pieces if not isinstance(own, Scattered)), pieces[0][0])
    targets, end = targets_for(like, total, FreshMemory()), 0
    for columns, rows, count in pieces:
        targets.put(columns, slice(end, end + count), rows)
        end += count
    return targets.columns(total)

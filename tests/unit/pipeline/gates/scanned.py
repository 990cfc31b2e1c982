"""Blocks of samples for gates, made without a build."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainfeed.pipeline.gates.samples import SampleColumns


class Blocks:
    """Samples in blocks of equal size, all of one source; offsets are their row numbers."""

    def __init__(self, columns: Mapping[str, NDArray[Any]], rows_per_block: int) -> None:
        self._columns = columns
        self._step = rows_per_block

    def __iter__(self) -> Iterator[SampleColumns]:
        num_rows = len(next(iter(self._columns.values())))
        for start in range(0, num_rows, self._step):
            part = slice(start, start + self._step)
            columns = {name: column[part] for name, column in self._columns.items()}
            offsets = np.arange(start, min(start + self._step, num_rows), dtype=np.int64)
            sources = np.zeros(len(offsets), np.int32)
            yield SampleColumns(["kafka:clicks/0"], sources, offsets, columns)


def objects(values: Sequence[object]) -> NDArray[Any]:
    """A column of values of any size, as decoded from records."""
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column

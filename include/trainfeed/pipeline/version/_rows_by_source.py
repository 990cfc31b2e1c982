"""Divides rows by the source of their records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["rows_by_source"]

# One mask over all rows per source is fastest for a few sources (partitions of a topic), and
# quadratic for many (thousands of files): above this number, rows are sorted by source.
_FEW_SOURCES: Final = 32


def rows_by_source(
    sources: Sequence[str], indices: NDArray[np.int32]
) -> Iterator[tuple[str, NDArray[np.bool_] | NDArray[np.intp]]]:
    """Yield each source of a column of source indices, with the mask or indices of its rows."""
    if len(sources) <= _FEW_SOURCES:
        yield from ((source, indices == index) for index, source in enumerate(sources))
        return
    order = np.argsort(indices, kind="stable")
    counts = np.bincount(indices, minlength=len(sources))
    ends = np.cumsum(counts)
    for index in np.flatnonzero(counts).tolist():
        yield sources[index], order[ends[index] - counts[index] : ends[index]]

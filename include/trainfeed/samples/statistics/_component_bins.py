"""The histograms of all components of a field in one pair of arrays.

A field may have 64 components, and a shard few samples: an object per component would take far
longer than the counting.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.samples.statistics._histogram import bin_names, bin_ranks

__all__ = ["ComponentBins"]

_NUM_BINS: Final = 1 << 15


class ComponentBins:
    """Counts of finite numbers in the bins of ``Histogram``, for each component.

    Args:
        num: Number of components.
    """

    def __init__(self, num: int) -> None:
        self._num = num
        # Component and rank of the filled bins as one number, ascending, and their counts. The
        # arrays are replaced, never changed, so copies can share them.
        self._keys = np.empty(0, np.int64)
        self._counts = np.empty(0, np.int64)

    def add(self, rows: Sequence[NDArray[np.float64]]) -> None:
        """Count the finite numbers of each component, shape ``(n,)`` each."""
        keys, counts = [], []
        for number, row in enumerate(rows):
            ranks, found = _counted(bin_ranks(row))
            keys.append(ranks + number * _NUM_BINS)
            counts.append(found)
        self._take(np.concatenate(keys), np.concatenate(counts))

    def merge(self, other: ComponentBins) -> None:
        """Add the counts of ``other``."""
        self._take(other._keys, other._counts)

    def to_json(self) -> list[list[list[Any]]]:
        """Return what ``Histogram.to_json`` returns, for each component."""
        names = bin_names(self._keys & (_NUM_BINS - 1)).tolist()
        bins = [list(pair) for pair in zip(names, self._counts.tolist(), strict=True)]
        ends = np.searchsorted(self._keys, np.arange(self._num + 1) * _NUM_BINS).tolist()
        return [bins[start:end] for start, end in pairwise(ends)]

    def total(self) -> list[list[Any]]:
        """Return what ``Histogram.to_json`` returns for the numbers of all components."""
        ranks = self._keys & (_NUM_BINS - 1)
        filled, places = np.unique(ranks, return_inverse=True)
        counts = np.zeros(len(filled), np.int64)
        np.add.at(counts, places, self._counts)
        return [list(b) for b in zip(bin_names(filled).tolist(), counts.tolist(), strict=True)]

    def load(self, histograms: Sequence[Sequence[Sequence[Any]]]) -> None:
        """Add the counts that ``to_json`` gave."""
        for number, bins in enumerate(histograms):
            columns = np.array(bins, np.float64).reshape(-1, 2)
            keys = bin_ranks(columns[:, 0].copy()).astype(np.int64) + number * _NUM_BINS
            order = np.argsort(keys, kind="stable")
            self._take(*_runs(keys[order], columns[order, 1].astype(np.int64)))

    def copy(self) -> ComponentBins:
        """Return an independent copy."""
        other = ComponentBins(self._num)
        other.merge(self)
        return other

    def _take(self, keys: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        """Add counts of filled bins, ascending by key."""
        if not len(self._keys):
            self._keys, self._counts = keys, counts
        elif np.array_equal(keys, self._keys):
            self._counts = self._counts + counts
        else:
            both = np.concatenate([self._keys, keys])
            order = np.argsort(both, kind="stable")
            self._keys, self._counts = _runs(
                both[order], np.concatenate([self._counts, counts])[order]
            )


def _counted(ranks: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the ranks that occur, ascending, and their counts."""
    if not len(ranks):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    lowest = int(ranks.min())
    table = np.bincount(ranks - lowest)
    filled = np.flatnonzero(table != 0)
    return filled + lowest, table[filled]


def _runs(
    keys: NDArray[np.int64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the different keys of an ascending array, and the sum of the counts of each."""
    if not len(keys):
        return keys, counts
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    return keys[starts], np.add.reduceat(counts, starts)

"""Cells into which a reference divides the values: the terms of a population stability index.

Numbers are divided at the deciles of the reference. A value that alone has a tenth of the numbers,
as 0 often does, gets a cell of its own. Cells consist of whole bins of the histogram, so the counts
of any distribution in them are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.drift._distribution import Distribution

__all__ = ["NumberCells", "category_counts"]

_NUM_CELLS: Final = 10


@dataclass(frozen=True)
class NumberCells:
    """Cells of numbers: ranges of bins, ascending.

    Attributes:
        first: Name of the first bin of each cell, shape ``(n,)``.
        last: Name of its last bin, likewise.
    """

    first: NDArray[np.float64]
    last: NDArray[np.float64]

    @classmethod
    def of(cls, reference: Distribution) -> NumberCells:
        """Return cells of a tenth of the reference or more; those before a heavy bin have less."""
        least = reference.values / _NUM_CELLS
        groups: list[list[int]] = []
        filled = least
        for place, count in enumerate(reference.counts.tolist()):
            if filled >= least or count >= least:
                groups.append([])
                filled = 0
            groups[-1].append(place)
            filled += count
        first = [group[0] for group in groups]
        last = [group[-1] for group in groups]
        return cls(reference.bins[first], reference.bins[last])

    def counts(self, distribution: Distribution) -> NDArray[np.int64]:
        """Return the counts in the cells, then of values elsewhere, not finite, and absent.

        Elsewhere is below the first cell, above the last, and between cells of a single bin: there
        the reference has nothing.
        """
        counts = np.zeros(len(self.first) + 3, np.int64)
        np.add.at(counts, self._cells(distribution.bins), distribution.counts)
        counts[-2:] = distribution.not_finite, distribution.nulls
        return counts

    def _cells(self, bins: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return the cell of each bin; the number of cells for those elsewhere."""
        elsewhere = len(self.first)
        if not elsewhere:
            return np.zeros(len(bins), np.intp)
        above = np.searchsorted(self.last, bins)
        cell = np.minimum(above, elsewhere - 1)
        is_range = self.first < self.last
        # A bin between two cells belongs to the one that is a range.
        between = np.where(is_range[cell], cell, cell - 1)
        between = np.where(is_range[between] & (above > 0), between, elsewhere)
        cells = np.where(bins >= self.first[cell], cell, between)
        return np.where(above < elsewhere, cells, elsewhere)


def category_counts(reference: Distribution, distribution: Distribution) -> NDArray[np.int64]:
    """Return the counts of both, shape ``(2, n)``, in the values that the reference knows.

    The last three counts are those of other values, of values that are not finite, and of absent
    ones.
    """
    known = list(reference.categories or ())
    counts = []
    for each in (reference, distribution):
        found = [(each.categories or {}).get(value, 0) for value in known]
        # Counts of frequent texts may be too low: the rest has what they lack.
        rest = each.values - sum(found)
        counts.append([*found, rest, each.not_finite, each.nulls])
    return np.array(counts, np.int64)

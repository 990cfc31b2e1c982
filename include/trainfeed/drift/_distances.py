"""Distances between two distributions: 0 for equal ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.drift._cells import NumberCells, category_counts
from trainfeed.drift._distribution import Distribution

__all__ = [
    "MEASURES",
    "Distance",
    "are_categories",
    "cell_counts",
    "distances",
    "ks_bounds",
    "stability_index",
]

# absent: difference of the share of samples without a finite value; psi: population stability
# index; ks: largest difference of the shares below any number; mean: difference of the means in
# standard deviations of the reference.
MEASURES: Final = ("absent", "psi", "ks", "mean")
# A cell that is empty on one side has an infinite term without it.
_PSEUDO_COUNT: Final = 0.5
# Difference from a reference that has one value only.
_LARGEST_MEAN: Final = 1e6
_ROUNDING: Final = 1e-9
# Exceeded once in 10,000 times: by a normal variable on one side, on both sides, and by the scaled
# distance of Kolmogorov and Smirnov.
_NORMAL_ONE_SIDED: Final = 3.719
_NORMAL_CHANCE: Final = 3.891
_KS_CHANCE: Final = 2.225
_RARE_CHANCE: Final = 4.0


@dataclass(frozen=True)
class Distance:
    """A distance, and how large it becomes by chance.

    Attributes:
        distance: The distance, 0 for equal distributions.
        chance: A distance that samples drawn from the reference exceed about once in 10,000 times.
    """

    distance: float
    chance: float


def distances(reference: Distribution, distribution: Distribution) -> dict[str, Distance]:
    """Return the distances of a distribution from a reference, by measure.

    Categories, which are integers of few values and texts, have ``absent`` and ``psi`` only. There
    are no distances if one side has no samples.
    """
    if not reference.samples or not distribution.samples:
        return {}
    # The variance of the difference of two shares is proportional to this number.
    spread = 1 / reference.samples + 1 / distribution.samples
    counts = cell_counts(reference, distribution)
    found = {
        "absent": _absent(counts, spread),
        "psi": Distance(stability_index(*counts), spread * _chi_square(_freedom(counts))),
    }
    if are_categories(reference, distribution):
        return found
    if reference.values and distribution.values:
        least, _ = ks_bounds(reference, distribution)
        found["ks"] = Distance(least, _KS_CHANCE * math.sqrt(spread))
        if (shift := _mean_shift(reference, distribution)) is not None:
            found["mean"] = Distance(shift, _NORMAL_CHANCE * math.sqrt(spread))
    return found


def are_categories(reference: Distribution, distribution: Distribution) -> bool:
    """Whether both have a table of their values."""
    return reference.categories is not None and distribution.categories is not None


def cell_counts(reference: Distribution, distribution: Distribution) -> NDArray[np.int64]:
    """Return the counts of both in the same cells, shape ``(2, n)``.

    The last three cells are those of values elsewhere, not finite, and absent.
    """
    if are_categories(reference, distribution):
        return category_counts(reference, distribution)
    cells = NumberCells.of(reference)
    return np.stack([cells.counts(reference), cells.counts(distribution)])


def stability_index(left: NDArray[np.int64], right: NDArray[np.int64]) -> float:
    """Return the population stability index: the sum of ``(p - q) * ln(p / q)`` over the cells.

    Half a count is added to each cell that is not empty on both sides. Symmetric.

    Args:
        left: Counts in the cells, shape ``(n,)``.
        right: Counts in the same cells.
    """
    filled = (left > 0) | (right > 0)
    p, q = (_shares(counts[filled]) for counts in (left, right))
    return float(((p - q) * np.log(p / q)).sum())


def ks_bounds(left: Distribution, right: Distribution) -> tuple[float, float]:
    """Return the least and the largest distance of Kolmogorov and Smirnov that fit the bins.

    The first is exact at the edges of bins, and the one that is compared with limits: numbers
    within one bin, up to an eighth apart, are not told apart.

    Args:
        left: Numbers, at least one.
        right: Likewise.
    """
    names = np.union1d(left.bins, right.bins)
    p, q = (_spread(names, each) for each in (left, right))
    after = np.cumsum(p - q)
    before = after - (p - q)
    # Within a bin the difference rises by at most p, falls by at most q, and ends at ``after``.
    most = np.maximum(np.minimum(before + p, after + q), np.minimum(q - before, p - after))
    return float(np.abs(after).max()), float(most.max())


def _shares(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    smooth = counts + _PSEUDO_COUNT
    shares: NDArray[np.float64] = smooth / smooth.sum()
    return shares


def _spread(names: NDArray[np.float64], distribution: Distribution) -> NDArray[np.float64]:
    """Return the share of the numbers in each of the named bins."""
    shares = np.zeros(len(names))
    shares[np.searchsorted(names, distribution.bins)] = distribution.counts / distribution.values
    return shares


def _mean_shift(reference: Distribution, distribution: Distribution) -> float | None:
    if reference.mean is None or distribution.mean is None or reference.std is None:
        return None
    distance = abs(distribution.mean - reference.mean)
    # Equal constants have means that differ in the last digits, and a deviation of the same size.
    rounding = _ROUNDING * max(abs(reference.mean), abs(distribution.mean))
    if distance <= rounding:
        return 0.0
    if reference.std <= rounding or distance > _LARGEST_MEAN * reference.std:
        return _LARGEST_MEAN
    return distance / reference.std


def _absent(counts: NDArray[np.int64], spread: float) -> Distance:
    """Return the larger difference of the shares of values that are not finite, and absent."""
    before, now = counts[:, -2:] / counts.sum(axis=1, keepdims=True)
    share = float((counts[0, -2:].max() + 1) / (counts[0].sum() + 2))
    # The second term is for shares near 0, which are no normal variables.
    chance = _NORMAL_CHANCE * math.sqrt(share * (1 - share) * spread) + _RARE_CHANCE * spread
    return Distance(float(np.abs(now - before).max()), chance)


def _freedom(counts: NDArray[np.int64]) -> int:
    return max(1, int((counts.sum(axis=0) > 0).sum()) - 1)


def _chi_square(freedom: int) -> float:
    """Return what a variable of chi-square exceeds once in 10,000 times (Wilson and Hilferty)."""
    variance = 2 / (9 * freedom)
    return float(freedom * (1 - variance + _NORMAL_ONE_SIDED * math.sqrt(variance)) ** 3)

"""Distances between distributions of fields, which come from their statistics."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.samples import Field

# --- The distribution of one field or component, from its statistics

# Integers with at most so many different values are categories.
_MOST_CATEGORIES: Final = 64


@dataclass(frozen=True)
class Distribution:
    """Counts of the values of a field or component.

    Attributes:
        samples: Number of samples, those without the field included.
        nulls: Number of samples without the field.
        not_finite: Number of values that are NaN or infinite.
        values: Number of finite numbers, or of texts.
        bins: Names of the filled bins of numbers, ascending, float64, shape ``(n,)``; see
            ``FieldStatistics``. Empty for texts.
        counts: Numbers in the bins, int64, shape ``(n,)``.
        categories: Value → count. The exact table of integers with at most 64 different values,
            the frequent values of texts; None for other numbers.
        mean: Mean of the numbers; None for texts, and if there is none.
        std: Their standard deviation, likewise.
    """

    samples: int
    nulls: int
    not_finite: int
    values: int
    bins: NDArray[np.float64]
    counts: NDArray[np.int64]
    categories: Mapping[int | str, int] | None
    mean: float | None = None
    std: float | None = None

    @classmethod
    def of_numbers(
        cls, field: Field, statistics: Mapping[str, Any], entry: Mapping[str, Any]
    ) -> Distribution:
        """Return the distribution of numbers.

        Args:
            field: The field.
            statistics: Its statistics.
            entry: The same, or the entry of a component.
        """
        columns = np.array(entry["histogram"], np.float64).reshape(-1, 2)
        return cls(
            statistics["count"],
            statistics["nulls"],
            entry["not_finite"],
            entry["values"],
            columns[:, 0],
            columns[:, 1].astype(np.int64),
            _table(field, entry),
            entry["mean"],
            entry["std"],
        )

    @classmethod
    def of_texts(cls, entry: Mapping[str, Any]) -> Distribution:
        """Return the distribution of bytes or text, from the entries of the field."""
        count, nulls = entry["count"], entry["nulls"]
        none = np.empty(0)
        top: dict[int | str, int] = {str(value): int(number) for value, number in entry["top"]}
        return cls(count, nulls, 0, count - nulls, none, none.astype(np.int64), top)


def distributions(
    field: Field, statistics: Mapping[str, Any]
) -> Iterator[tuple[str, Distribution]]:
    """Yield the distributions of a field by name: ``label``, or ``values[3]`` for a component.

    Args:
        field: The field.
        statistics: Its statistics, as ``FieldStatistics.to_json`` gives them. Without sketches
            nothing is yielded.
    """
    if field.is_text:
        if "top" in statistics:
            yield field.name, Distribution.of_texts(statistics)
    elif "components" in statistics:
        shape = field.item_shape
        for index, entry in zip(np.ndindex(*shape), statistics["components"], strict=True):
            name = f"{field.name}[{', '.join(map(str, index))}]"
            yield name, Distribution.of_numbers(field, statistics, entry)
    elif "histogram" in statistics:
        yield field.name, Distribution.of_numbers(field, statistics, statistics)


def _table(field: Field, entry: Mapping[str, Any]) -> dict[int | str, int] | None:
    """Return the exact counts of integers, if there are few different ones."""
    # Numbers of one byte have a bin per value. Other integers have frequent values, which are all
    # values if no count is missing.
    table = entry["histogram"] if field.values_dtype.itemsize == 1 else entry.get("top")
    if table is None or sum(count for _, count in table) != entry["values"]:
        return None
    return dict(table) if len(table) <= _MOST_CATEGORIES else None


# --- Cells into which a reference divides the values: the terms of a population stability index

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


# --- Distances between two distributions: 0 for equal ones

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

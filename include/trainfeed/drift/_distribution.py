"""The distribution of one field or component, from its statistics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.samples import Field

__all__ = ["Distribution", "distributions"]

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

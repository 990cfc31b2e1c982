"""The writer's own account of a day: what a reader of all its samples has to find.

Sums are exact: values of float32 are fractions of a power of two, and no sum is rounded before it
is written down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

__all__ = ["DayLedger"]


class DayLedger:
    """Counts of one day, of one copy of its impressions."""

    def __init__(self) -> None:
        self._counts = Counter[str]()
        self._planted = Counter[str]()
        self._values = Fraction(0)

    def add_sample(self, label: int, features: Mapping[int, float]) -> None:
        """Count an impression with all its features, those of the dictionary among them."""
        self._counts += Counter(
            lines=1, samples=1, clicks=label, features=len(features), index_sum=sum(features)
        )
        self._values += sum(Fraction(float(np.float32(value))) for value in features.values())

    def add_planted(self, kind: str) -> None:
        """Count a planted line."""
        self._counts["lines"] += 1
        self._planted[kind] += 1

    def as_json(self, copies: int) -> dict[str, Any]:
        """Return the account of so many copies.

        Returns:
            ``lines``, ``samples``, ``clicks``; ``features``, the number of pairs of index and value
            in all samples, ``index_sum`` and ``value_sum`` over these; and ``planted``, kind of
            a planted line → number.
        """
        names = ("lines", "samples", "clicks", "features", "index_sum")
        return {
            **{name: self._counts[name] * copies for name in names},
            "value_sum": float(self._values * copies),
            "planted": {kind: count * copies for kind, count in sorted(self._planted.items())},
        }

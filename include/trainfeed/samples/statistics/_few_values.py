"""Exact counts of values, as long as there are few different ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainfeed.samples.statistics._top_values import MAX_TOP

__all__ = ["FewValues"]


class FewValues:
    """The count of every value of each component that has few different values.

    A component with more than ``MAX_TOP`` different values has no counts, whatever the order: a
    component that holds hashes or measurements costs nothing after its first block.

    Args:
        num: Number of components.
    """

    def __init__(self, num: int) -> None:
        self._counts: list[dict[int, int] | None] = [{} for _ in range(num)]

    def add(self, rows: NDArray[Any]) -> None:
        """Add the integers of each component, shape ``(num, n)``."""
        few = [number for number, counts in enumerate(self._counts) if counts is not None]
        if not few:
            return
        for number, row in zip(few, np.sort(rows[few], axis=1), strict=True):
            starts = np.flatnonzero(np.concatenate([[True], row[1:] != row[:-1]]))
            if len(starts) > MAX_TOP:
                self._counts[number] = None
                continue
            counts = np.diff(starts, append=len(row)).tolist()
            self._take(number, dict(zip(row[starts].tolist(), counts, strict=True)))

    def merge(self, other: FewValues) -> None:
        """Add the counts of ``other``."""
        for number, counts in enumerate(other._counts):
            self._take(number, counts)

    def copy(self) -> FewValues:
        """Return an independent copy."""
        other = FewValues(len(self._counts))
        other._counts = [None if each is None else dict(each) for each in self._counts]
        return other

    def to_json(self) -> list[list[list[int]] | None]:
        """Return values and counts of each component, most frequent first; None for too many."""
        return [
            None
            if counts is None
            else [list(pair) for pair in sorted(counts.items(), key=lambda p: (-p[1], p[0]))]
            for counts in self._counts
        ]

    def load(self, tops: Sequence[Any]) -> None:
        """Add the counts that ``to_json`` gave."""
        for number, top in enumerate(tops):
            self._take(number, None if top is None else dict(top))

    def _take(self, number: int, counts: dict[int, int] | None) -> None:
        known = self._counts[number]
        if known is None or counts is None:
            self._counts[number] = None
            return
        for value, count in counts.items():
            known[value] = known.get(value, 0) + count
        if len(known) > MAX_TOP:
            self._counts[number] = None

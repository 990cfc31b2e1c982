"""Writes the dictionary of items, the lookup file of the data set ``ctr``."""

from __future__ import annotations

from examples.ctr.feature_numbers import FeatureNumbers

__all__ = ["dictionary_text"]


def dictionary_text(numbers: FeatureNumbers) -> str:
    """Return the dictionary as CSV: a line per item, by ascending item."""
    lines = [
        ",".join(map(str, (item, measure, *categories)))
        for item, measure, categories in numbers.dictionary()
    ]
    return "\n".join(["item,measure,category_1,category_2,category_3", *lines, ""])

"""The dictionary that impressions are joined with: an item → its number and its categories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa

__all__ = ["features_by_item"]

CATEGORIES: Final = ("category_1", "category_2", "category_3")
# The index of the one feature of an item whose value is not 1.
MEASURE: Final = 4000

Features = Mapping[int, float]

# The table that was seen last and what was made of it: the table itself is compared, not its
# content, so a process makes this once for as long as it is given the same table.
_LAST: Final[list[tuple[pa.Table, dict[int, Features]]]] = []


def features_by_item(table: pa.Table) -> Mapping[int, Features]:
    """Return index of an item → its features, index → value of float32.

    Raises:
        ValueError: An item stands twice in the dictionary.
    """
    if not _LAST or _LAST[0][0] is not table:
        _LAST[:] = [(table, _read(table))]
    return _LAST[0][1]


def _read(table: pa.Table) -> dict[int, Features]:
    found: dict[int, Features] = {}
    for row in table.to_pylist():
        if row["item"] in found:
            raise ValueError(f"expected every item once in the dictionary, got {row['item']} twice")
        features = {row[name]: 1.0 for name in CATEGORIES}
        found[row["item"]] = {**features, MEASURE: float(np.float32(row["measure"]))}
    return found

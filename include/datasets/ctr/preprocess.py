"""Impressions as libFM lines → sparse samples, joined with the dictionary of items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from trainfeed.preprocessing import Filtered, Record, Reject

from .features import ITEMS
from .libfm import parse_line
from .lookups import features_by_item


def ctr(record: Record, lookups: Mapping[str, pa.Table]) -> dict[str, Any] | Filtered:
    """Turn one line into a sample.

    Returns:
        ``label`` 0 or 1; ``indices`` int64 and ``values`` float32, both of shape (n,), by ascending
        index, without two equal ones: a row of a sparse matrix. A blank line or a comment is
        filtered as ``no_data``.

    Raises:
        Reject: What ``parse_line`` says; ``no_item`` or ``two_items``; or ``not_in_dictionary`` for
            an item that the dictionary does not have yet. Such lines become samples when the
            interval is built again with a dictionary that has it.
    """
    parsed = parse_line(record.value or b"")
    if parsed is None:
        return Filtered("no_data")
    label, features = parsed
    features |= _of_item(features, lookups["items"])
    indices = sorted(features)
    return {
        "label": label,
        "indices": np.array(indices, dtype=np.int64),
        "values": np.array([features[index] for index in indices], dtype=np.float32),
    }


def _of_item(features: Mapping[int, float], dictionary: pa.Table) -> Mapping[int, float]:
    items = [index for index in features if index in ITEMS]
    if len(items) != 1:
        raise Reject("two_items" if items else "no_item", f"expected one item, got {items[:20]}")
    try:
        return features_by_item(dictionary)[items[0]]
    except KeyError:
        raise Reject("not_in_dictionary", f"item {items[0]}") from None

"""Changes of samples as JSON values; a changed sample has the two values of each changed field."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from trainfeed.difference.records import RecordChange

__all__ = ["change_to_json"]


def change_to_json(change: RecordChange) -> dict[str, Any]:
    """Return a change as JSON values; bytes become ``{"hex": …}``, NaN and infinities text."""
    return {
        "kind": change.kind,
        "position": f"{change.source}@{change.offset}",
        "ordinal": change.ordinal,
        "splits": list(change.splits),
        "fields": list(change.fields),
        "samples": [None if each is None else _sample(each) for each in change.samples],
        "fate": change.fate,
    }


def _sample(sample: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _plain(value) for name, value in sample.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    is_special = isinstance(value, float) and not math.isfinite(value)
    return str(value) if is_special else value

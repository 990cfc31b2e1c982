"""The loader: batches in a computed order, from memory that is lent, resumed exactly."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainfeed.loader._intervals import IntervalWindow, open_intervals
    from trainfeed.loader._loader import DataLoader
    from trainfeed.loader._measure import ReadMeasure, measure_read
    from trainfeed.loader.order import Mixture, Tail, mix
    from trainfeed.loader.sources import RecordFiles, TFRecordFiles, Verify
    from trainfeed.loader.state import Batch, LoaderReport, LoaderState

__all__ = [
    "Batch",
    "DataLoader",
    "IntervalWindow",
    "LoaderReport",
    "LoaderState",
    "Mixture",
    "ReadMeasure",
    "RecordFiles",
    "TFRecordFiles",
    "Tail",
    "Verify",
    "measure_read",
    "mix",
    "open_intervals",
]

# Worker processes import this package and need none of these, nor the Arrow that comes with them.
_HOMES = {
    "Batch": "state",
    "DataLoader": "_loader",
    "IntervalWindow": "_intervals",
    "LoaderReport": "state",
    "LoaderState": "state",
    "Mixture": "order",
    "ReadMeasure": "_measure",
    "RecordFiles": "sources",
    "TFRecordFiles": "sources",
    "Tail": "order",
    "Verify": "sources",
    "measure_read": "_measure",
    "mix": "order",
    "open_intervals": "_intervals",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

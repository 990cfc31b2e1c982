"""The loader: batches in a computed order, from memory that is lent, resumed exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.core.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.loader.chunks import Verify
    from trainfeed.loader.interval_window import IntervalWindow, open_intervals
    from trainfeed.loader.loader import DataLoader, ReadMeasure, measure_read
    from trainfeed.loader.mixture import Mixture, mix
    from trainfeed.loader.order import Tail
    from trainfeed.loader.record_files import RecordFiles, TFRecordFiles
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

# Worker processes import this package and need none of these names, which would import Arrow.

__getattr__ = on_demand(__name__)

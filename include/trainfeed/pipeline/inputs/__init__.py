"""The inputs of an interval, from topics or log files, and the proof that nothing is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.pipeline.inputs._awaited import Awaited
    from trainfeed.pipeline.inputs._boundary_check import (
        CheckedFile,
        Repair,
        check_boundaries,
        repairs,
    )
    from trainfeed.pipeline.inputs._kept_inputs import KeptInputs
    from trainfeed.pipeline.inputs._log_absence import Absence, deadline, logs_of
    from trainfeed.pipeline.inputs._log_inputs import find_interval_logs, logs_folder
    from trainfeed.pipeline.inputs._published_inputs import PublishedInputs, is_away
    from trainfeed.pipeline.inputs._source_reader import Head, Inputs, KnownInputs, SourceReader
    from trainfeed.pipeline.inputs._source_readers import (
        READERS,
        PieceReader,
        late_policies,
        late_skews,
        reader_of,
    )

__all__ = [
    "READERS",
    "Absence",
    "Awaited",
    "CheckedFile",
    "Head",
    "Inputs",
    "KeptInputs",
    "KnownInputs",
    "PieceReader",
    "PublishedInputs",
    "Repair",
    "SourceReader",
    "check_boundaries",
    "deadline",
    "find_interval_logs",
    "is_away",
    "late_policies",
    "late_skews",
    "logs_folder",
    "logs_of",
    "reader_of",
    "repairs",
]


__getattr__ = on_demand(__name__, __file__)

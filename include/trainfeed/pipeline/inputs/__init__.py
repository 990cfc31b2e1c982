"""The inputs of an interval, from topics or log files, and the proof that nothing is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.core.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.pipeline.inputs.boundary_check import (
        CheckedFile,
        Repair,
        check_boundaries,
        repairs,
    )
    from trainfeed.pipeline.inputs.kept_inputs import KeptInputs, PublishedInputs, is_away
    from trainfeed.pipeline.inputs.logs import (
        Absence,
        awaited_logs,
        find_interval_logs,
        logs_folders,
        logs_of,
    )
    from trainfeed.pipeline.inputs.protocols import Head, Inputs, KnownInputs, SourceReader
    from trainfeed.pipeline.inputs.record_rules import late_policies, late_skews
    from trainfeed.pipeline.inputs.source_readers import (
        READERS,
        PieceReader,
        reader_of,
    )
    from trainfeed.pipeline.inputs.topics import Awaited

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
    "awaited_logs",
    "check_boundaries",
    "find_interval_logs",
    "is_away",
    "late_policies",
    "late_skews",
    "logs_folders",
    "logs_of",
    "reader_of",
    "repairs",
]


__getattr__ = on_demand(__name__)

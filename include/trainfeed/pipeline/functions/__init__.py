"""Calls of preprocessing functions, and an account of every record that they get."""

from trainfeed.pipeline.functions._account import require_bounded
from trainfeed.pipeline.functions._group import batch_bytes_of
from trainfeed.pipeline.functions._jobs import (
    FunctionJob,
    StageJob,
    explain,
    memory_ran_out,
    memory_remedy,
)
from trainfeed.pipeline.functions._prepared_part import PreparedPart, RecordAccount
from trainfeed.pipeline.functions._sample_limits import (
    field_bytes,
    fitting_processes,
    require_room_for_fields,
)

__all__ = [
    "FunctionJob",
    "PreparedPart",
    "RecordAccount",
    "StageJob",
    "batch_bytes_of",
    "explain",
    "field_bytes",
    "fitting_processes",
    "memory_ran_out",
    "memory_remedy",
    "require_bounded",
    "require_room_for_fields",
]

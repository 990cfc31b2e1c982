"""Calls preprocessing functions and accounts for every record that they get."""

from trainfeed.pipeline.functions._account import Lateness, require_bounded
from trainfeed.pipeline.functions._deaths import explain, memory_ran_out
from trainfeed.pipeline.functions._group import batch_bytes_of
from trainfeed.pipeline.functions._jobs import FunctionJob, StageJob
from trainfeed.pipeline.functions._sample_limits import fitting_processes

__all__ = [
    "FunctionJob",
    "Lateness",
    "StageJob",
    "batch_bytes_of",
    "explain",
    "fitting_processes",
    "memory_ran_out",
    "require_bounded",
]

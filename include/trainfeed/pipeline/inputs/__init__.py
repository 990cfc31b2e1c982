"""What an interval reads, from topics or from log files, and the proof that nothing is missing."""

from trainfeed.pipeline.inputs._boundary_check import CheckedFile, Repair, check_boundaries, repairs
from trainfeed.pipeline.inputs._inputs import (
    Inputs,
    KnownInputs,
    late_policies,
    late_skews,
    open_inputs,
)
from trainfeed.pipeline.inputs._log_absence import Absence, deadline
from trainfeed.pipeline.inputs._log_files import check_folder, iter_log
from trainfeed.pipeline.inputs._log_inputs import find_interval_logs, log_location, logs_folder
from trainfeed.pipeline.inputs._published_inputs import PublishedInputs, is_away
from trainfeed.pipeline.inputs._reading import PieceReader
from trainfeed.pipeline.inputs._topic_inputs import open_source

__all__ = [
    "Absence",
    "CheckedFile",
    "Inputs",
    "KnownInputs",
    "PieceReader",
    "PublishedInputs",
    "Repair",
    "check_boundaries",
    "check_folder",
    "deadline",
    "find_interval_logs",
    "is_away",
    "iter_log",
    "late_policies",
    "late_skews",
    "log_location",
    "logs_folder",
    "open_inputs",
    "open_source",
    "repairs",
]

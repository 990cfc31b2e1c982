"""Calls of preprocessing functions, and an account of every record that they get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.pipeline.functions._account import TurnedDownRecords, require_bounded
    from trainfeed.pipeline.functions._batch_mode import Mode
    from trainfeed.pipeline.functions._function_run import run_function, settle_quarantine
    from trainfeed.pipeline.functions._group import batch_bytes_of
    from trainfeed.pipeline.functions._jobs import (
        FunctionJob,
        StageJob,
        explain,
        memory_ran_out,
        memory_remedy,
    )
    from trainfeed.pipeline.functions._modes import mode_of
    from trainfeed.pipeline.functions._prepared_part import PreparedPart, RecordAccount
    from trainfeed.pipeline.functions._sample_limits import (
        SampleLimits,
        fitting_processes,
        require_room_for_fields,
        room_for_samples,
    )
    from trainfeed.pipeline.functions._user_function import UserFunction

__all__ = [
    "FunctionJob",
    "Mode",
    "PreparedPart",
    "RecordAccount",
    "SampleLimits",
    "StageJob",
    "TurnedDownRecords",
    "UserFunction",
    "batch_bytes_of",
    "explain",
    "fitting_processes",
    "memory_ran_out",
    "memory_remedy",
    "mode_of",
    "require_bounded",
    "require_room_for_fields",
    "room_for_samples",
    "run_function",
    "settle_quarantine",
]


__getattr__ = on_demand(__name__, __file__)

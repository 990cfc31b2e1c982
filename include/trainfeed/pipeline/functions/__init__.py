"""Calls of preprocessing functions, and an account of every record that they get."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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

_HOMES: Final = {
    "FunctionJob": "._jobs",
    "Mode": "._batch_mode",
    "PreparedPart": "._prepared_part",
    "RecordAccount": "._prepared_part",
    "SampleLimits": "._sample_limits",
    "StageJob": "._jobs",
    "TurnedDownRecords": "._account",
    "UserFunction": "._user_function",
    "batch_bytes_of": "._group",
    "explain": "._jobs",
    "fitting_processes": "._sample_limits",
    "memory_ran_out": "._jobs",
    "memory_remedy": "._jobs",
    "mode_of": "._modes",
    "require_bounded": "._account",
    "require_room_for_fields": "._sample_limits",
    "room_for_samples": "._sample_limits",
    "run_function": "._function_run",
    "settle_quarantine": "._function_run",
}

__getattr__ = on_demand(__name__, _HOMES)

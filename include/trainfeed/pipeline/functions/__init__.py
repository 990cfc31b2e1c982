"""Calls of preprocessing functions, and an account of every record that they get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.core.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.pipeline.functions.account import (
        PreparedPart,
        RecordAccount,
        SampleLimits,
        TurnedDownRecords,
        fitting_processes,
        require_bounded,
        require_room_for_fields,
        room_for_samples,
    )
    from trainfeed.pipeline.functions.jobs import (
        FunctionJob,
        StageJob,
        batch_bytes_of,
        explain,
        memory_ran_out,
        memory_remedy,
    )
    from trainfeed.pipeline.functions.modes import Mode, mode_of
    from trainfeed.pipeline.functions.user_function import UserFunction

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
]


__getattr__ = on_demand(__name__)

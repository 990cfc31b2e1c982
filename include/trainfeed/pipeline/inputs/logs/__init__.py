"""Log files: those of an interval, the planned ones read and proven, the first records of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.core.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.pipeline.inputs.logs.interval_logs import (
        Absence,
        LogInputs,
        awaited_logs,
        find_interval_logs,
        log_location,
        logs_folders,
        logs_of,
    )
    from trainfeed.pipeline.inputs.logs.log_heads import with_log_heads
    from trainfeed.pipeline.inputs.logs.planned_logs import (
        check_log_files,
        check_log_names,
        iter_log,
    )

__all__ = [
    "Absence",
    "LogInputs",
    "awaited_logs",
    "check_log_files",
    "check_log_names",
    "find_interval_logs",
    "iter_log",
    "log_location",
    "logs_folders",
    "logs_of",
    "with_log_heads",
]


__getattr__ = on_demand(__name__)

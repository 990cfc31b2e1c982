"""Decides whether an interval can be planned, and makes its plan."""

from trainfeed.pipeline.planner._interval_uploads import check_interval_uploads
from trainfeed.pipeline.planner._planner import Planner
from trainfeed.pipeline.planner._readiness import (
    folder_of_logs,
    require_closed,
    require_complete,
    waits_until,
)
from trainfeed.pipeline.planner._replay_plan import ReplayPlan, plan_replay

__all__ = [
    "Planner",
    "ReplayPlan",
    "check_interval_uploads",
    "folder_of_logs",
    "plan_replay",
    "require_closed",
    "require_complete",
    "waits_until",
]

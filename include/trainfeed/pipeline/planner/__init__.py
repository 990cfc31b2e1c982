"""Decides whether an interval can be planned, and makes its plan."""

from trainfeed.pipeline.planner._causes import Cause, PublishedVersion, causes_of, reason_of
from trainfeed.pipeline.planner._conflict import OutdatedVersion
from trainfeed.pipeline.planner._decision import Asked, FoundPlan, find_plan
from trainfeed.pipeline.planner._interval_uploads import check_interval_uploads
from trainfeed.pipeline.planner._planner import Planner
from trainfeed.pipeline.planner._readiness import (
    folder_of_logs,
    require_closed,
    require_complete,
    waits_until,
)
from trainfeed.pipeline.planner._recipe import Recipe
from trainfeed.pipeline.planner._replay_plan import ReplayPlan, is_replay, plan_replay
from trainfeed.pipeline.planner._withdrawn_before import told_acknowledged

__all__ = [
    "Asked",
    "Cause",
    "FoundPlan",
    "OutdatedVersion",
    "Planner",
    "PublishedVersion",
    "Recipe",
    "ReplayPlan",
    "causes_of",
    "check_interval_uploads",
    "find_plan",
    "folder_of_logs",
    "is_replay",
    "plan_replay",
    "reason_of",
    "require_closed",
    "require_complete",
    "told_acknowledged",
    "waits_until",
]

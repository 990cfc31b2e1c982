"""Decides whether an interval can be planned, and makes its plan."""

from trainfeed.pipeline.planner.decision import (
    Asked,
    FoundPlan,
    find_plan,
    folders_of_logs,
    require_closed,
    require_complete,
    waits_until,
)
from trainfeed.pipeline.planner.fingerprint import (
    Cause,
    OutdatedVersion,
    PublishedVersion,
    Recipe,
    causes_of,
    check_interval_uploads,
    reason_of,
    told_acknowledged,
)
from trainfeed.pipeline.planner.planner import Planner
from trainfeed.pipeline.planner.replay import ReplayPlan, is_replay, plan_replay

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
    "folders_of_logs",
    "is_replay",
    "plan_replay",
    "reason_of",
    "require_closed",
    "require_complete",
    "told_acknowledged",
    "waits_until",
]

"""Decides whether an interval can be planned, and what its plan says."""

from trainfeed.pipeline.planner._planner import Planner
from trainfeed.pipeline.planner._readiness import (
    folder_of_logs,
    require_closed,
    require_complete,
    waits_until,
)

__all__ = [
    "Planner",
    "folder_of_logs",
    "require_closed",
    "require_complete",
    "waits_until",
]

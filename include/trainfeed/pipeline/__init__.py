"""From source positions to a published version; each stage is a module of this room.

Callers import a stage where they run it, because each stage imports numpy and pyarrow.
"""

from trainfeed.pipeline._outdated_rule import OutdatedRule
from trainfeed.pipeline._plan_report import PlanReport, SkipReport, plan_report_from_json
from trainfeed.pipeline._ref import Build, JsonObject, PlanRef
from trainfeed.pipeline._stage_reports import PublishReport, StageReport, VersionSummary

__all__ = [
    "Build",
    "JsonObject",
    "OutdatedRule",
    "PlanRef",
    "PlanReport",
    "PublishReport",
    "SkipReport",
    "StageReport",
    "VersionSummary",
    "plan_report_from_json",
]

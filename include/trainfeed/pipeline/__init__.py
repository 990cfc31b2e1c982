"""From source positions to a published version; each stage is a module of this room.

Callers import a stage where they run it, because each stage imports numpy and pyarrow.
"""

from trainfeed.pipeline.reports import (
    Build,
    BuildRequest,
    JsonObject,
    OutdatedRule,
    PlanRef,
    PlanReport,
    PublishReport,
    SkipReport,
    StageReport,
    VersionSummary,
    plan_report_from_json,
)

__all__ = [
    "Build",
    "BuildRequest",
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

"""From source positions to a published version; this listing is the DAG, a stage a module.

The stages are imported where they run, because numpy and pyarrow come with them.
"""

from trainfeed.pipeline._ref import Build, PlanRef
from trainfeed.pipeline._reports import (
    JsonObject,
    PlanReport,
    PublishReport,
    SkipReport,
    StageReport,
    VersionSummary,
    plan_report_from_json,
)

__all__ = [
    "Build",
    "JsonObject",
    "PlanRef",
    "PlanReport",
    "PublishReport",
    "SkipReport",
    "StageReport",
    "VersionSummary",
    "plan_report_from_json",
]

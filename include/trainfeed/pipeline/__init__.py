"""From source positions to a published version; this listing is the DAG, a stage a module.

The stages are imported where they run, because numpy and pyarrow come with them.
"""

from trainfeed.pipeline._plan_report import PlanReport, SkipReport, plan_report_from_json
from trainfeed.pipeline._ref import Build, JsonObject, PlanRef
from trainfeed.pipeline._stage_reports import PublishReport, StageReport, VersionSummary

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

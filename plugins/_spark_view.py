"""A Spark application on the page of a run: how far it is, and what it took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from plugins._html import pairs, section

__all__ = ["SPARK", "application", "spark_progress"]

# The task that runs the application.
SPARK: Final = "spark"
# Number in the report of the task → text on the page.
_NUMBERS: Final = {
    "groups": "groups",
    "shards": "shards",
    "kept_shards": "shards kept of an earlier attempt",
    "build_s": "seconds from the first task to the last shard",
    "preprocess_s": "seconds of all tasks that ran the function",
    "write_s": "seconds of all tasks that wrote shards",
    "failed_tasks": "tasks that failed and ran again",
    "shuffle_bytes": "bytes shuffled",
    "spilled_bytes": "bytes spilled",
}


def spark_progress(told: Mapping[str, Any]) -> str:
    """Return how far an application is by what its task left; empty if it left nothing."""
    return str(told.get("progress") or "")


def application(report: Mapping[str, Any]) -> str:
    """Return what an application took; empty if none ran."""
    if not report.get("build_s"):
        return ""
    told = {text: report[name] for name, text in _NUMBERS.items() if name in report}
    return section("Spark application", pairs(told))

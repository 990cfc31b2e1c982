"""The parts of a version: shards, gates, manifest, and reports about it."""

from trainfeed.pipeline.version._assemble import assemble, checked_content
from trainfeed.pipeline.version._gates import (
    Counts,
    FieldFacts,
    GateResult,
    broken,
    evaluate,
    failures,
    line,
)
from trainfeed.pipeline.version._refusal import check_report, refusal
from trainfeed.pipeline.version._shard_writer import ShardPart, ShardWriter
from trainfeed.pipeline.version._totals import total_statistics
from trainfeed.pipeline.version._verdict import (
    CheckedShard,
    LateCounts,
    QuarantineCounts,
    Verdict,
)
from trainfeed.pipeline.version._version_report import version_report

__all__ = [
    "CheckedShard",
    "Counts",
    "FieldFacts",
    "GateResult",
    "LateCounts",
    "QuarantineCounts",
    "ShardPart",
    "ShardWriter",
    "Verdict",
    "assemble",
    "broken",
    "check_report",
    "checked_content",
    "evaluate",
    "failures",
    "line",
    "refusal",
    "total_statistics",
    "version_report",
]

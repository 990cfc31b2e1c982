"""The parts of a version: shards, verdict, manifest, and reports about it."""

from trainfeed.pipeline.version._assemble import assemble, checked_content
from trainfeed.pipeline.version._measured_gates import MeasuredGates, measured_gates
from trainfeed.pipeline.version._refusal import check_report, refusal
from trainfeed.pipeline.version._rows_by_source import rows_by_source
from trainfeed.pipeline.version._shard_writer import ShardPart, ShardWriter
from trainfeed.pipeline.version._staged_files import STAGED_WRITERS
from trainfeed.pipeline.version._totals import total_statistics
from trainfeed.pipeline.version._verdict import (
    CheckedShard,
    LateCounts,
    QuarantineCounts,
    Verdict,
    filtered_reasons,
)
from trainfeed.pipeline.version._version_report import version_report
from trainfeed.pipeline.version._wanted import require_wanted

__all__ = [
    "STAGED_WRITERS",
    "CheckedShard",
    "LateCounts",
    "MeasuredGates",
    "QuarantineCounts",
    "ShardPart",
    "ShardWriter",
    "Verdict",
    "assemble",
    "check_report",
    "checked_content",
    "filtered_reasons",
    "measured_gates",
    "refusal",
    "require_wanted",
    "rows_by_source",
    "total_statistics",
    "version_report",
]

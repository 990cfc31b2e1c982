"""Quality gates: conditions that an interval must meet to be published; one module per family."""

from trainfeed.pipeline.gates._gate_facts import Counts, Facts, FieldFacts, field_facts
from trainfeed.pipeline.gates._gate_kinds import NEED_THE_INTERVAL, evaluate, late_gates
from trainfeed.pipeline.gates._gate_result import (
    GateResult,
    because,
    broken,
    failures,
    line,
    told,
)
from trainfeed.pipeline.gates._schema_change import SchemaChange, schema_changes
from trainfeed.pipeline.gates._schema_evolution import changes_since
from trainfeed.pipeline.gates._shard_skew import skew_of

__all__ = [
    "NEED_THE_INTERVAL",
    "Counts",
    "Facts",
    "FieldFacts",
    "GateResult",
    "SchemaChange",
    "because",
    "broken",
    "changes_since",
    "evaluate",
    "failures",
    "field_facts",
    "late_gates",
    "line",
    "schema_changes",
    "skew_of",
    "told",
]

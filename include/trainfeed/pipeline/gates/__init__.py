"""Quality gates: conditions that an interval must meet to be published; one module per family."""

from trainfeed.pipeline.gates._gate_facts import Counts, Facts, FieldFacts, field_facts
from trainfeed.pipeline.gates._gate_kinds import evaluate
from trainfeed.pipeline.gates._gate_result import (
    Gate,
    GateResult,
    because,
    broken,
    failures,
    limits,
    line,
)

__all__ = [
    "Counts",
    "Facts",
    "FieldFacts",
    "Gate",
    "GateResult",
    "because",
    "broken",
    "evaluate",
    "failures",
    "field_facts",
    "limits",
    "line",
]

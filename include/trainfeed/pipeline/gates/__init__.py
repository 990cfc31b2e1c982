"""Quality gates: conditions that an interval must meet to be published.

``kinds`` has the table of all gates; what dataset.yaml may say about each is in
``trainfeed.specification.gate_options``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.core.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.pipeline.gates.counts import skew_of
    from trainfeed.pipeline.gates.kinds import NEED_THE_INTERVAL, evaluate, late_gates
    from trainfeed.pipeline.gates.result import (
        Counts,
        Facts,
        FieldFacts,
        GateResult,
        because,
        broken,
        failures,
        field_facts,
        line,
        told,
    )
    from trainfeed.pipeline.gates.schema import SchemaChange, changes_since, schema_changes

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


__getattr__ = on_demand(__name__)

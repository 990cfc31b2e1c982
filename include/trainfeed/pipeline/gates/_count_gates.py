"""Gates on the counts of a build, and on the statistics of one field."""

from __future__ import annotations

from trainfeed.pipeline.gates._gate_facts import Facts, FieldFacts
from trainfeed.pipeline.gates._gate_result import GateResult
from trainfeed.pipeline.gates._limited import lies_in, limited
from trainfeed.specification import Gate

__all__ = ["count", "late", "null_ratio", "quarantine_ratio", "value_range"]


def quarantine_ratio(gate: Gate, facts: Facts) -> GateResult:
    """Measure the share of records in quarantine."""
    counts = facts.counts
    return limited(gate, counts.quarantined / counts.read if counts.read else 0.0)


def count(gate: Gate, facts: Facts) -> GateResult:
    """Measure the number of samples."""
    return limited(gate, facts.counts.samples)


def late(gate: Gate, facts: Facts) -> GateResult:
    """Measure the number of records that are stamped outside of the interval."""
    return limited(gate, facts.counts.late)


def null_ratio(gate: Gate, facts: Facts) -> GateResult:
    """Measure the share of samples without a field."""
    field = _field(gate, facts)
    return limited(gate, field.nulls / field.count if field.count else 0.0)


def value_range(gate: Gate, facts: Facts) -> GateResult:
    """Measure the least and the largest value of a field.

    Without samples there is no least value: an empty interval passes every range.
    """
    field = _field(gate, facts)
    if field.not_finite:
        # Minimum and maximum leave out NaN and infinity, which are outside of any range.
        # Waivers compare the value, this text too: it is part of the format.
        return GateResult(gate, f"{field.not_finite} times NaN or infinity", passed=False)
    low, high = field.min, field.max
    value = low if low == high else [low, high]
    return GateResult(gate, value, passed=lies_in(gate, low, high))


def _field(gate: Gate, facts: Facts) -> FieldFacts:
    return facts.counts.fields[str(gate["field"])]

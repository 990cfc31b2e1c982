"""All kinds of gates: the name of a check → how it is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

from trainfeed.errors import ConfigError
from trainfeed.pipeline.gates import counts
from trainfeed.pipeline.gates.counts import drift, late_ratio, relative_count, shard_skew
from trainfeed.pipeline.gates.result import Facts, GateResult
from trainfeed.pipeline.gates.samples import (
    AcceptedValues,
    SampleColumns,
    Share,
    StagedSamples,
    unique,
)
from trainfeed.pipeline.gates.schema import schema_evolution, with_evolution
from trainfeed.specification import Gate


class _Scan(Protocol):
    """A gate that looks at every sample."""

    def add(self, block: SampleColumns) -> None:
        """Look at further samples."""

    def result(self) -> GateResult:
        """Return the result after all samples."""


_Measure: TypeAlias = Callable[[Gate, Facts], GateResult]

_KINDS: Final[Mapping[str, _Measure]] = {
    "count": counts.count,
    "drift": drift,
    "late": counts.late,
    "late_ratio": late_ratio,
    "null_ratio": counts.null_ratio,
    "quarantine_ratio": counts.quarantine_ratio,
    "range": counts.value_range,
    "relative_count": relative_count,
    "schema_evolution": schema_evolution,
    "shard_skew": shard_skew,
    "unique": unique,
}
_SCANS: Final[Mapping[str, Callable[[Gate, Facts], _Scan]]] = {
    "accepted_values": AcceptedValues,
    "share": Share,
}
# Kinds whose value depends on how many records there are, or on the versions before: of the first
# records of an interval they say nothing.
NEED_THE_INTERVAL: Final = frozenset(
    {"count", "drift", "relative_count", "schema_evolution", "shard_skew"}
)


def late_gates(policies: Iterable[str]) -> list[Gate]:
    """Return the gate that the policies for late records of a build ask for; none without one."""
    asked = "fail" in policies
    return [{"check": "late", "max": 0, "severity": "block"}] if asked else []


def evaluate(gates: Sequence[Gate], facts: Facts) -> list[GateResult]:
    """Measure the gates of a plan, in their order; and the rule for schemas if theirs changed.

    Raises:
        ConfigError: The plan has a gate of an unknown kind: a newer trainfeed wrote it.
        CodeChangedError: A lookup is not the one of the plan.
        FormatError: A work file is damaged.
        StorageError: A work file cannot be read.
    """
    gates = with_evolution(gates, facts)
    scans = {
        number: _SCANS[str(gate["check"])](gate, facts)
        for number, gate in enumerate(gates)
        if gate["check"] in _SCANS
    }
    if scans and facts.stage is not None:
        for block in StagedSamples(facts.stage):
            for scan in scans.values():
                scan.add(block)
    return [
        scans[number].result() if number in scans else _measured(gate, facts)
        for number, gate in enumerate(gates)
    ]


def _measured(gate: Gate, facts: Facts) -> GateResult:
    measure = _KINDS.get(str(gate["check"]))
    if measure is None:
        raise ConfigError(f"unknown check {gate['check']!r} in the plan")
    return measure(gate, facts)

"""The gate ``drift``: distributions of a build against those of earlier versions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from trainfeed.drift import (
    LEAST_VERSIONS,
    DriftRule,
    Judged,
    Selection,
    Snapshot,
    VersionDrift,
    change,
    drift_of,
    judgement_to_json,
)
from trainfeed.pipeline.gates._gate_facts import Facts
from trainfeed.pipeline.gates._gate_result import Gate, GateResult
from trainfeed.samples import FieldStatistics
from trainfeed.specification import DriftCheck

__all__ = ["drift"]

_MOST_NAMED: Final = 5


def drift(gate: Gate, facts: Facts) -> GateResult:
    """Measure how many fields and components have a distance beyond its limit.

    The entry of the manifest has all distances with their limits: later versions make their limits
    of them.
    """
    rule = DriftCheck.model_validate(gate)
    selection = Selection(rule.fields, rule.ignore or ())
    *_, found = drift_of(_versions(facts, selection), _rule(rule), selection)
    return GateResult(
        {**gate, "distances": judgement_to_json(found.judgement)},
        len(found.beyond),
        passed=not found.beyond,
        because=_because(found),
        allowed="no field or component beyond its limit",
    )


def _rule(check: DriftCheck) -> DriftRule:
    floors = check.floor.model_dump()
    return DriftRule(check.reference, check.history, check.factor, floors)


def _versions(facts: Facts, selection: Selection) -> list[Snapshot]:
    earlier = [Snapshot.of(version, selection) for version in reversed(facts.earlier)]
    return [*earlier, Snapshot("this build", lambda: _totals(facts, selection))]


def _totals(facts: Facts, selection: Selection) -> dict[str, FieldStatistics]:
    """Return the statistics of the selected fields over all splits."""
    parts = [facts.statistics[split] for split in sorted(facts.statistics)]
    ...

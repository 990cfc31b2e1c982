"""The gate ``drift``: distributions of a build against those of earlier versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trainfeed.drift import (
    LEAST_VERSIONS,
    Judged,
    Selection,
    Snapshot,
    VersionDrift,
    change,
    drift_of,
    judgement_to_json,
    rule_of,
    selection_of,
)
from trainfeed.pipeline.gates._gate_facts import Facts
from trainfeed.pipeline.gates._gate_result import GateResult
from trainfeed.samples import FieldStatistics, Schema
from trainfeed.specification import Gate

__all__ = ["drift"]

_MOST_NAMED: Final = 5


def drift(gate: Gate, facts: Facts) -> GateResult:
    """Measure how many fields and components have a distance beyond its limit.

    The entry of the manifest has all distances with their limits: later versions make their limits
    of them.
    """
    rule, selection = rule_of(gate), selection_of(gate)
    *_, found = drift_of(_versions(facts, selection), rule, selection)
    return GateResult(
        {**gate, "distances": judgement_to_json(found.judgement)},
        len(found.beyond),
        passed=not found.beyond,
        because=_because(found, rule.reference),
        allowed="no field or component beyond its limit",
    )


def _versions(facts: Facts, selection: Selection) -> list[Snapshot]:
    earlier = [Snapshot.of(version, selection) for version in reversed(facts.earlier)]
    return [*earlier, Snapshot("this build", lambda: _totals(facts, selection))]


def _totals(facts: Facts, selection: Selection) -> dict[str, FieldStatistics]:
    """Return the statistics of the selected fields over all splits."""
    schema = selection.schema(Schema.from_json(facts.schema))
    totals: dict[str, FieldStatistics] = {}
    for field in schema or ():
        parts = [facts.statistics[split].fields[field.name] for split in sorted(facts.statistics)]
        whole = all(part.has_components for part in parts)
        totals[field.name] = FieldStatistics(field, components=whole)
        for part in parts:
            totals[field.name].merge(part)
    return totals


def _because(found: VersionDrift, reference: int) -> str:
    judged = [each for part in found.judgement.values() for each in part.values()]
    if not any(each.limit is not None for each in judged):
        if found.versions >= LEAST_VERSIONS:
            return f"not judged: nothing that {LEAST_VERSIONS} earlier versions have"
        return f"not judged: {found.versions} of {LEAST_VERSIONS} versions"
    if not found.beyond:
        against = min(reference, found.versions)
        return f"{len(found.judgement)} fields and components against {against} earlier versions"
    compared = found.compared()
    named = [
        f"{part}: {_distances(found.judgement[part])}; {change(compared[part])}"
        for part in found.beyond[:_MOST_NAMED]
    ]
    if len(found.beyond) > _MOST_NAMED:
        named.append(f"and {len(found.beyond) - _MOST_NAMED} more")
    return " | ".join(named)


def _distances(measures: Mapping[str, Judged]) -> str:
    return ", ".join(
        f"{measure} {each.distance:.3g} beyond {each.limit:.3g}"
        for measure, each in measures.items()
        if each.is_beyond
    )

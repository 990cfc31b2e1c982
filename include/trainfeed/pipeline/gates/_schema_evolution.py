"""The gate ``schema_evolution``: changes of the schema since the version of the interval before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trainfeed.pipeline.gates._gate_facts import Facts
from trainfeed.pipeline.gates._gate_result import GateResult
from trainfeed.pipeline.gates._schema_change import SchemaChange, schema_changes
from trainfeed.specification import Gate, SchemaEvolutionCheck

__all__ = ["changes_since", "schema_evolution", "with_evolution"]

_MOST_NAMED: Final = 20


def changes_since(facts: Facts) -> list[SchemaChange]:
    """Return the changes since the newest earlier version; empty without one."""
    if not facts.earlier:
        return []
    return schema_changes(facts.earlier[0].manifest.fields, facts.schema)


def with_evolution(gates: Sequence[Gate], facts: Facts) -> list[Gate]:
    """Return the gates of a plan, and one with the rule by default if the schema has changed.

    A change that breaks its readers does not need a gate to be found.
    """
    if any(gate["check"] == "schema_evolution" for gate in gates) or not changes_since(facts):
        return list(gates)
    rule = SchemaEvolutionCheck(check="schema_evolution").model_dump()
    return [*gates, rule]


def schema_evolution(gate: Gate, facts: Facts) -> GateResult:
    """Measure the number of changes that are not allowed.

    If none of them has the action ``block``, the severity of the result is ``warn``.
    """
    changes = changes_since(facts)
    actions = {change: str(gate[change.change]) for change in changes}
    refused = [change for change in changes if actions[change] != "allow"]
    blocks = "block" in actions.values()
    severity = gate["severity"] if blocks or not refused else "warn"
    # A waiver holds for these changes, not for others of the same number.
    named = {"changes": [change.to_json() for change in refused]} if refused else {}
    return GateResult(
        {**gate, "severity": severity, **named},
        len(refused),
        passed=not refused,
        because=_because(facts, changes),
    )


def _because(facts: Facts, changes: Sequence[SchemaChange]) -> str:
    if not facts.earlier:
        return "no earlier version"
    since = f"since {facts.earlier[0].name}"
    if not changes:
        return f"no change {since}"
    named = "; ".join(map(str, changes[:_MOST_NAMED]))
    more = f"; and {len(changes) - _MOST_NAMED} more" if len(changes) > _MOST_NAMED else ""
    return f"{since}: {named}{more}"

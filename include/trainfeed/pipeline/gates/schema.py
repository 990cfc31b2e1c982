"""Changes between two schemas by class, and the gate ``schema_evolution``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from trainfeed.core.canonical_json import JsonFields
from trainfeed.pipeline.gates.result import Facts, GateResult
from trainfeed.pipeline.inputs.schemas import writer_changes
from trainfeed.samples import Field, Schema
from trainfeed.specification import Gate, SchemaEvolutionCheck

# --- Changes between two schemas, each of a class by a stated rule

# Bits of the largest whole numbers up to which a type of numbers holds every one.
_MANTISSA_BITS: Final = {"float16": 11, "float32": 24, "float64": 53}


@dataclass(frozen=True)
class SchemaChange(JsonFields):
    """One change of a schema.

    Attributes:
        field: Name of the field.
        change: The class of the change, an option of the gate ``schema_evolution``.
        before: The field before, as text; empty if there was none.
        now: The field now, likewise.
    """

    field: str
    change: str
    before: str
    now: str

    def __str__(self) -> str:
        sides = " → ".join(filter(None, (self.before, self.now)))
        return f"{self.field} {self.change} ({sides})"


def schema_changes(before: Sequence[object], now: Sequence[object]) -> list[SchemaChange]:
    """Return all changes, in the order of the new schema, removed fields last.

    A field may change in several ways: each is a change of its own. The order of fields does not
    count.

    Args:
        before: The earlier schema, as in manifests.
        now: The later one.

    Raises:
        ConfigError: One of them is no schema.
    """
    old = {field.name: field for field in Schema.from_json(before)}
    new = {field.name: field for field in Schema.from_json(now)}
    changes = []
    for name, field in new.items():
        kinds = _kinds(old[name], field) if name in old else [_added(field)]
        sides = (_told(old.get(name)), _told(field))
        changes += [SchemaChange(name, kind, *sides) for kind in kinds]
    removed = [field for name, field in old.items() if name not in new]
    return changes + [SchemaChange(field.name, "removed", _told(field), "") for field in removed]


def type_change(before: str, now: str) -> str:
    """Return the class of a change between two different types.

    Returns:
        ``widened`` if every value before is a value now, ``narrowed`` if every value now was one
        before, ``incompatible`` else. Truth values, bytes and texts are no numbers, nor each other.
    """
    if _holds(now, before):
        return "widened"
    return "narrowed" if _holds(before, now) else "incompatible"


def _added(field: Field) -> str:
    return "added_optional" if field.optional else "added_required"


def _kinds(before: Field, now: Field) -> Iterator[str]:
    if before.dtype != now.dtype:
        yield type_change(before.dtype, now.dtype)
    if before.shape != now.shape:
        yield "shape"
    if before.optional != now.optional:
        yield "made_optional" if now.optional else "made_required"


def _told(field: Field | None) -> str:
    if field is None:
        return ""
    return f"{field}, optional" if field.optional else str(field)


def _holds(outer: str, inner: str) -> bool:
    """Whether every value of one type of numbers is a value of another one."""
    if outer in _MANTISSA_BITS:
        if inner in _MANTISSA_BITS:
            return _MANTISSA_BITS[outer] >= _MANTISSA_BITS[inner]
        bounds = _bounds(inner)
        most = 1 << _MANTISSA_BITS[outer]
        return bounds is not None and -most <= bounds[0] and bounds[1] <= most
    outside, inside = _bounds(outer), _bounds(inner)
    if outside is None or inside is None:
        return False
    return outside[0] <= inside[0] and inside[1] <= outside[1]


def _bounds(dtype: str) -> tuple[int, int] | None:
    """Return the least and the largest number of a type of whole numbers; None for others."""
    kind, _, bits = dtype.partition("int")
    if not bits:
        return None
    if kind == "u":
        return 0, (1 << int(bits)) - 1
    return -(1 << int(bits) - 1), (1 << int(bits) - 1) - 1


# --- The gate ``schema_evolution``: changes of the schema since the version of the interval before

_MOST_NAMED: Final = 20


def changes_since(facts: Facts) -> list[SchemaChange]:
    """Return the changes since the newest earlier version; empty without one.

    Behind those of the samples' schema are those of the schemas that writers of values have.
    """
    if not facts.earlier:
        return []
    earlier = facts.earlier[0].manifest
    changes = schema_changes(earlier.fields, facts.schema)
    if facts.stage is not None:
        changes += [SchemaChange(*each) for each in writer_changes(facts.stage, earlier)]
    return changes


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
    actions = {change: _action(gate, change) for change in changes}
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


def _action(gate: Gate, change: SchemaChange) -> str:
    # Gates do not have the actions by default for changes of writers.
    return str(gate.get(change.change) or SchemaEvolutionCheck.WRITER_CHANGES[change.change])


def _because(facts: Facts, changes: Sequence[SchemaChange]) -> str:
    if not facts.earlier:
        return "no earlier version"
    since = f"since {facts.earlier[0].name}"
    if not changes:
        return f"no change {since}"
    named = "; ".join(map(str, changes[:_MOST_NAMED]))
    more = f"; and {len(changes) - _MOST_NAMED} more" if len(changes) > _MOST_NAMED else ""
    return f"{since}: {named}{more}"

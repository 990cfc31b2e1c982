"""Words about a gate, from its entry in a specification, a plan or a manifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias, cast

from trainfeed.printable_text import printable
from trainfeed.specification.quality._earlier_checks import SchemaEvolutionCheck

__all__ = ["Gate", "gate_limits", "gate_name", "shown_number"]

# An entry: check, severity, limits, and fields if the check needs some.
Gate: TypeAlias = Mapping[str, object]
_MOST_VALUES: Final = 5
_MOST_CHARS: Final = 60


def gate_name(gate: Gate) -> str:
    """Return the check, and what it is about: a field, several, a field with its value."""
    subject = _subject(gate)
    return f"{gate['check']} of {subject}" if subject else str(gate["check"])


def gate_limits(gate: Gate) -> str:
    """Return what a gate allows."""
    if gate.get("allowed"):
        return str(gate["allowed"])
    if gate["check"] == "schema_evolution":
        return _allowed_changes(gate)
    sides = ("min", "max")
    limits = ", ".join(f"{side} {gate[side]}" for side in sides if gate.get(side) is not None)
    return f"{limits} of {_other_values(gate)}" if gate["check"] == "accepted_values" else limits


def shown_number(value: object) -> str:
    """Return the value of a gate as text, numbers with six digits."""
    if isinstance(value, list):
        return f"[{', '.join(map(shown_number, value))}]"
    if value is None:
        return "unknown"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _subject(gate: Gate) -> str:
    if gate.get("equals") is not None:
        return f"{gate['field']} = {_short(gate['equals'])}"
    by = cast("Sequence[object]", gate.get("by") or ())
    return str(gate.get("field") or ", ".join(map(str, by)) or gate.get("of") or "")


def _other_values(gate: Gate) -> str:
    if gate.get("lookup"):
        return f"values that lookup {gate['lookup']} lacks"
    values = cast("Sequence[object]", gate.get("values") or ())
    more = f" and {len(values) - _MOST_VALUES} more" if len(values) > _MOST_VALUES else ""
    return f"other values than {', '.join(map(_short, values[:_MOST_VALUES]))}{more}"


def _allowed_changes(gate: Gate) -> str:
    """Return the changes of a schema that are allowed, and those that only warn."""
    said = []
    for action, words in (("allow", ""), ("warn", "with a warning ")):
        names = [name for name in SchemaEvolutionCheck.CHANGES if gate.get(name) == action]
        if names:
            said.append(f"{words}{', '.join(names)}")
    return "; ".join(said) or "no change"


def _short(value: object) -> str:
    text = printable(str(value))
    return text if len(text) <= _MOST_CHARS else f"{text[:_MOST_CHARS]}…"

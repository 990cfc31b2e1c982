"""The gates of a version as a table for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from trainfeed.specification import gate_limits, gate_name, shown_number

__all__ = ["GATE_COLUMNS", "gate_rows"]

GATE_COLUMNS: Final = ("gate", "value", "allowed", "else", "passed", "counts")


def gate_rows(gates: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return a row of ``GATE_COLUMNS`` for every gate of a manifest."""
    return [
        {
            "gate": gate_name(gate),
            "value": "" if gate["passed"] is None else shown_number(gate["value"]),
            "allowed": gate_limits(gate),
            "else": str(gate["severity"]),
            "passed": _passed(gate["passed"]),
            "counts": str(gate.get("because", "")),
        }
        for gate in gates
    ]


def _passed(passed: bool | None) -> str:
    """Return the word for the outcome; a gate of a preview may not have been judged."""
    return "not judged" if passed is None else "yes" if passed else "no"

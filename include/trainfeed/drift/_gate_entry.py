"""Rule and selection from the entry of a gate ``drift`` in a plan or a manifest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainfeed.drift._compared import Selection
from trainfeed.drift._judged import DriftRule
from trainfeed.errors import FormatError

__all__ = ["rule_of", "selection_of"]


def rule_of(gate: Mapping[str, Any]) -> DriftRule:
    """Return the rule of a gate.

    Raises:
        FormatError: The entry is not that of a gate ``drift``.
    """
    try:
        floors = {str(measure): float(floor) for measure, floor in gate["floor"].items()}
        lengths = int(gate["reference"]), int(gate["history"])
        return DriftRule(*lengths, float(gate["factor"]), {**DriftRule().floors, **floors})
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FormatError(f"expected a gate drift, got {str(gate)[:200]}: {error}") from error


def selection_of(gate: Mapping[str, Any]) -> Selection:
    """Return the fields and components that a gate compares."""
    fields = gate.get("fields")
    return Selection(None if fields is None else tuple(fields), tuple(gate.get("ignore") or ()))

"""The gate on records whose stamps do not lie in the interval."""

from __future__ import annotations

from typing import Final

from trainfeed.pipeline.gates._gate_facts import Facts
from trainfeed.pipeline.gates._gate_result import GateResult
from trainfeed.pipeline.gates._limited import limited
from trainfeed.specification import Gate

__all__ = ["late_ratio"]

_WORDS: Final = {
    "late": "stamped before the interval",
    "future": "stamped after the interval",
    "unstamped": "without a stamp",
}


def late_ratio(gate: Gate, facts: Facts) -> GateResult:
    """Measure the share of records that are stamped outside of the interval, or not at all."""
    counts, kind = facts.counts, str(gate["of"])
    found = counts.misplaced.get(kind, 0)
    because = f"{found} of {counts.read} records {_WORDS[kind]}"
    return limited(gate, found / counts.read if counts.read else 0.0, because)

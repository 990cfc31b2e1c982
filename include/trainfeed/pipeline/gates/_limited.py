"""Values between a least and a largest one: the part that most gates have in common."""

from __future__ import annotations

from typing import TypeAlias, cast

from trainfeed.pipeline.gates._gate_result import GateResult
from trainfeed.specification import Gate

__all__ = ["Number", "lies_in", "limited"]

Number: TypeAlias = float | None


def limited(gate: Gate, value: float | None, because: str = "") -> GateResult:
    """Return the result of a gate whose value is one number; None passes.

    Args:
        gate: A gate with ``min``, ``max`` or both.
        value: The measured value; None if there was nothing to measure.
        because: See ``GateResult``.
    """
    return GateResult(gate, value, passed=lies_in(gate, value, value), because=because)


def lies_in(gate: Gate, low: Number, high: Number) -> bool:
    """Whether the range ``[low, high]`` lies in that of a gate; True without one."""
    if low is None or high is None:
        return True
    least, most = (cast("Number", gate.get(side)) for side in ("min", "max"))
    return (least is None or low >= least) and (most is None or high <= most)

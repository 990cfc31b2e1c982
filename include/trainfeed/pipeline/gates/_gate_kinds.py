"""All kinds of gates: the name of a check → how it is measured.

A new kind is a function from gate and facts to a result, and a line in ``_KINDS``; its options are
a class of ``trainfeed.specification``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from trainfeed.errors import ConfigError
from trainfeed.pipeline.gates import _count_gates as counts
from trainfeed.pipeline.gates._gate_facts import Facts
from trainfeed.pipeline.gates._gate_result import Gate, GateResult

__all__ = ["evaluate"]

_Measure: TypeAlias = Callable[[Gate, Facts], GateResult]

_KINDS: Final[Mapping[str, _Measure]] = {
    "count": counts.count,
    "late": counts.late,
    "null_ratio": counts.null_ratio,
    "quarantine_ratio": counts.quarantine_ratio,
    "range": counts.value_range,
}


def evaluate(gates: Sequence[Gate], facts: Facts) -> list[GateResult]:
    """Measure the gates of a plan, in their order.

    Raises:
        ConfigError: The plan has a gate of an unknown kind: a newer trainfeed wrote it.
    """
    return [_measured(gate, facts) for gate in gates]


def _measured(gate: Gate, facts: Facts) -> GateResult:
    measure = _KINDS.get(str(gate["check"]))
    if measure is None:
        raise ConfigError(f"unknown check {gate['check']!r} in the plan")
    return measure(gate, facts)

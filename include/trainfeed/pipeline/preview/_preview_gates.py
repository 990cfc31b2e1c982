"""The gates of a preview: judged on the first records alone, and without a consequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trainfeed.pipeline._ref import JsonObject
from trainfeed.pipeline.gates import NEED_THE_INTERVAL, late_gates
from trainfeed.pipeline.inputs import late_policies
from trainfeed.pipeline.plans import Plan
from trainfeed.specification import DatasetSpec, Gate

__all__ = ["late_gate", "looked_at", "shown_gates"]

# A severity of which no failure stops a build or is told: the report has the results.
_LOOK: Final = "look"
_NOT_JUDGED: Final = "not judged on a preview: it needs the whole interval"


def late_gate(spec: DatasetSpec, plan: Plan) -> list[Gate]:
    """Return the gate that a build of this plan adds for the policy ``late: fail``, if any."""
    return late_gates(late_policies(spec, plan.inputs).values())


def looked_at(gates: Sequence[Gate]) -> list[Gate]:
    """Return the gates that the first records can be held against."""
    return [{**gate, "severity": _LOOK} for gate in gates if _is_judged(gate)]


def shown_gates(whole: Sequence[Gate], results: Sequence[Gate]) -> list[JsonObject]:
    """Return the gates of a plan with what the preview found, and with their own severity.

    Args:
        whole: The gates of the plan of the whole interval.
        results: Those of ``looked_at`` as the manifest of the preview has them, in their order;
            further ones, which a build adds by itself, may follow.
    """
    found = iter(results)
    shown = [
        {**next(found), "severity": gate["severity"]}
        if _is_judged(gate)
        else {**gate, "value": None, "passed": None, "because": _NOT_JUDGED}
        for gate in whole
    ]
    return [*shown, *({**gate, "severity": "block"} for gate in found)]


def _is_judged(gate: Gate) -> bool:
    return gate["check"] not in NEED_THE_INTERVAL

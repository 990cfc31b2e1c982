"""Quality gates: what must hold of an interval before anybody may see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainfeed.errors import ConfigError

__all__ = ["Counts", "evaluate", "failures"]


@dataclass(frozen=True)
class Counts:
    """What gates look at.

    Attributes:
        read: Source records read.
        quarantined: Records in quarantine.
        samples: Samples of all splits.
        late: Records of topics whose policy is to fail that are stamped before the interval, or
            later than its end and the topic's ``skew``.
        statistics: Per field the statistics over all splits, as JSON.
    """

    read: int
    quarantined: int
    samples: int
    late: int
    statistics: Mapping[str, Mapping[str, Any]]


def evaluate(gates: Sequence[Mapping[str, Any]], counts: Counts) -> list[dict[str, Any]]:
    """Evaluate the gates of a spec.

    Returns:
        Every gate as the spec has it, with ``value`` and ``passed``.
    """
    return [{**gate, **_measure(gate, counts)} for gate in gates]


def failures(results: Sequence[Mapping[str, Any]], severity: str) -> list[str]:
    """Return one line per gate of a severity that did not pass: what, value, limit."""
    return [
        _line(result)
        for result in results
        if not result["passed"] and result["severity"] == severity
    ]


def _measure(gate: Mapping[str, Any], counts: Counts) -> dict[str, Any]:
    low: float | None
    high: float | None
    match gate["check"]:
        case "quarantine_ratio":
            low = high = counts.quarantined / counts.read if counts.read else 0.0
        case "count":
            low = high = counts.samples
        case "late":
            low = high = counts.late
        case "null_ratio":
            field = counts.statistics[gate["field"]]
            low = high = field["nulls"] / field["count"] if field["count"] else 0.0
        case "range":
            field = counts.statistics[gate["field"]]
            low, high = field["min"], field["max"]
            if field["not_finite"]:
                # NaN and infinity are in no minimum and maximum, and lie in no range.
                return {"value": f"{field['not_finite']} times NaN or infinity", "passed": False}
        case unknown:
            raise ConfigError(f"unknown check {unknown!r} in the plan")
    return {"value": low if low == high else [low, high], "passed": _lies_in(gate, low, high)}


def _lies_in(gate: Mapping[str, Any], low: float | None, high: float | None) -> bool:
    # No sample, no minimum: an empty interval breaks no range.
    if low is None or high is None:
        return True
    least, most = gate.get("min"), gate.get("max")
    return (least is None or low >= least) and (most is None or high <= most)


def _line(result: Mapping[str, Any]) -> str:
    field = f" of {result['field']}" if result.get("field") else ""
    limits = ", ".join(
        f"{side} {result[side]}" for side in ("min", "max") if result.get(side) is not None
    )
    return f"{result['check']}{field} is {result['value']}, allowed: {limits}"

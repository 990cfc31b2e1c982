"""Quality gates: what must hold of an interval before anybody may see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainfeed.errors import ConfigError

__all__ = ["Counts", "because", "broken", "evaluate", "failures", "line"]


@dataclass(frozen=True)
class Counts:
    """What gates look at.

    Attributes:
        read: Source records read.
        quarantined: Records in quarantine.
        samples: Samples of all splits.
        late: Records of topics whose policy is to fail that are stamped before the interval, or
            later than its end and the topic's ``skew``.
        statistics: Of the fields that gates are about, the statistics over all splits, as JSON.
        filtered: Records that are not wanted.
    """

    read: int
    quarantined: int
    samples: int
    late: int
    statistics: Mapping[str, Mapping[str, Any]]
    filtered: int = 0

    def to_json(self) -> dict[str, int]:
        """Return the counts of records and samples for a report."""
        names = ("read", "samples", "quarantined", "filtered")
        return {name: getattr(self, name) for name in names}


def evaluate(gates: Sequence[Mapping[str, Any]], counts: Counts) -> list[dict[str, Any]]:
    """Evaluate the gates of a spec.

    Returns:
        Every gate as the spec has it, with ``value`` and ``passed``.
    """
    return [{**gate, **_measure(gate, counts)} for gate in gates]


def broken(results: Sequence[Mapping[str, Any]], severity: str) -> list[Mapping[str, Any]]:
    """Return the gates of a severity that did not pass."""
    return [r for r in results if not r["passed"] and r["severity"] == severity]


def failures(results: Sequence[Mapping[str, Any]], severity: str, counts: Counts) -> list[str]:
    """Return one line per gate of a severity that did not pass, as ``line`` gives it."""
    return [line(result, counts) for result in broken(results, severity)]


def line(result: Mapping[str, Any], counts: Counts) -> str:
    """Return what a gate measured, what is allowed, and what the value is made of."""
    field = f" of {result['field']}" if result.get("field") else ""
    limits = ", ".join(
        f"{side} {result[side]}" for side in ("min", "max") if result.get(side) is not None
    )
    value = _shown(result["value"])
    return f"{result['check']}{field} is {value}, allowed: {limits} ({because(result, counts)})"


def because(result: Mapping[str, Any], counts: Counts) -> str:
    """Return the counts that a gate's value is made of."""
    field = counts.statistics.get(str(result.get("field")), {})
    match result["check"]:
        case "quarantine_ratio":
            return f"{counts.quarantined} of {counts.read} records quarantined"
        case "count":
            return (
                f"samples of {counts.read} records read; {counts.quarantined} quarantined,"
                f" {counts.filtered} filtered"
            )
        case "late":
            return f"of {counts.read} records, stamped outside of the interval"
        case "null_ratio":
            return f"{field['nulls']} of {field['count']} samples lack it"
        case _:
            what = "among" if field["not_finite"] else "least and largest of"
            return f"{what} {field['count']} samples"


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


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)

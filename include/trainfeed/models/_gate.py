"""The gate of a model: its metrics against limits, and against the promoted model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from trainfeed.specification import MetricGate, ModelSpec, nearest

__all__ = ["Compared", "GateReport", "MetricResult", "judge"]


@dataclass(frozen=True)
class Compared:
    """The promoted model, and its metrics on the data that the candidate is judged by.

    Attributes:
        version: Such as ``v0002``; None when there is no promoted model.
        metrics: Name to number; None when nothing can be compared.
        note: Why not, or how the metrics came about.
    """

    version: str | None
    metrics: Mapping[str, float] | None
    note: str


@dataclass(frozen=True)
class MetricResult:
    """One metric of the gate.

    Attributes:
        metric: Its name.
        value: Of the candidate; None when the training returned no such metric.
        min: The least allowed value, if any.
        max: The largest allowed value, if any.
        promoted: The promoted model's value, if it was compared.
        max_worse: How much worse than that the value may be, if that is limited.
        why: What is wrong; empty when the metric passes.
    """

    metric: str
    value: float | None
    min: float | None
    max: float | None
    promoted: float | None
    max_worse: float | None
    why: str

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return not self.why


@dataclass(frozen=True)
class GateReport:
    """What the gate says of a candidate.

    Attributes:
        results: Per metric of the specification, in its order.
        compared: What the candidate was compared with.
    """

    results: tuple[MetricResult, ...]
    compared: Compared

    @property
    def passed(self) -> bool:
        """Whether all metrics pass."""
        return all(result.passed for result in self.results)

    def reasons(self) -> list[str]:
        """Return what is wrong, a sentence for each metric that fails."""
        return [result.why for result in self.results if not result.passed]

    def to_json(self) -> dict[str, Any]:
        """Return the report as tasks leave it and job folders keep it."""
        return {
            "passed": self.passed,
            "metrics": [{**asdict(each), "passed": each.passed} for each in self.results],
            "promoted": self.compared.version,
            "compared": self.compared.metrics is not None,
            "note": self.compared.note,
        }


def judge(spec: ModelSpec, metrics: Mapping[str, float], compared: Compared) -> GateReport:
    """Hold the metrics of a candidate against the gate of its specification.

    Args:
        spec: The model, with the gate of each metric.
        metrics: Of the candidate: name to finite number.
        compared: The promoted model. Without its metrics only ``min`` and ``max`` decide, and the
            note of the report says so.
    """
    promoted = compared.metrics or {}
    results = tuple(
        _result(name, gate, metrics, promoted.get(name)) for name, gate in spec.metrics.items()
    )
    return GateReport(results, compared)


def _result(
    name: str, gate: MetricGate, metrics: Mapping[str, float], promoted: float | None
) -> MetricResult:
    value = metrics.get(name)
    why = _missing(name, metrics) if value is None else _wrong(name, gate, value, promoted)
    return MetricResult(name, value, gate.min, gate.max, promoted, gate.max_worse, why)


def _missing(name: str, metrics: Mapping[str, float]) -> str:
    like = nearest(name, metrics)
    hint = f"; {like}" if like else ""
    return f"there is no metric {name!r}, only {', '.join(sorted(metrics)) or 'none'}{hint}"


def _wrong(name: str, gate: MetricGate, value: float, promoted: float | None) -> str:
    if gate.min is not None and value < gate.min:
        return f"{name} is {value:g}, below min {gate.min:g}"
    if gate.max is not None and value > gate.max:
        return f"{name} is {value:g}, above max {gate.max:g}"
    if gate.max_worse is None or promoted is None:
        return ""
    worse = promoted - value if gate.better == "higher" else value - promoted
    if worse > gate.max_worse:
        return (
            f"{name} is {value:g}, worse by {worse:g} than the promoted model's {promoted:g};"
            f" max_worse is {gate.max_worse:g}"
        )
    return ""

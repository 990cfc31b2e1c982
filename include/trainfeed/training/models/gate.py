"""The gate of a model: compares its metrics with limits, and with those of the promoted model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from trainfeed.specification import MetricGate, ModelSpec, nearest


@dataclass(frozen=True)
class Compared:
    """The promoted model, and its metrics on the same data as the candidate's.

    Attributes:
        version: Version of the promoted model, such as ``v0002``; None when there is none.
        metrics: Name to number; None when nothing can be compared.
        note: Origin of the metrics, or the reason why nothing can be compared.
    """

    version: str | None
    metrics: Mapping[str, float] | None
    note: str


@dataclass(frozen=True)
class MetricResult:
    """The verdict on one metric.

    Attributes:
        metric: Name of the metric.
        value: Value of the candidate; None when the training returned no such metric.
        min: Smallest allowed value, if any.
        max: Largest allowed value, if any.
        promoted: Value of the promoted model; None when it is not compared.
        max_worse: Largest allowed difference by which ``value`` may be worse than ``promoted``, if
            any.
        why: Reason why the metric fails; empty when it passes.
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
        """Whether the metric passes."""
        return not self.why


@dataclass(frozen=True)
class GateReport:
    """The verdict of the gate on a candidate.

    Attributes:
        results: One verdict for each metric of the specification, in its order.
        compared: The promoted model that the candidate was compared with.
    """

    results: tuple[MetricResult, ...]
    compared: Compared

    @property
    def passed(self) -> bool:
        """Whether all metrics pass."""
        return all(result.passed for result in self.results)

    def reasons(self) -> list[str]:
        """Return one sentence for each metric that fails."""
        return [result.why for result in self.results if not result.passed]

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values, for tasks and for the job's folder."""
        return {
            "passed": self.passed,
            "metrics": [{**asdict(each), "passed": each.passed} for each in self.results],
            "promoted": self.compared.version,
            "compared": self.compared.metrics is not None,
            "note": self.compared.note,
        }


def judge(spec: ModelSpec, metrics: Mapping[str, float], compared: Compared) -> GateReport:
    """Compare the metrics of a candidate with the gate of its specification.

    Args:
        spec: The model, with the gate of each metric.
        metrics: Metrics of the candidate, name to finite number.
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

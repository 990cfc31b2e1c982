"""The gate of a model: metrics of a candidate beside limits and the promoted model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from trainfeed.specification import MetricGate, ModelSpec, nearest


@dataclass(frozen=True)
class Baseline:
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
        value: Value of the candidate; None when the training returned no such finite metric.
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
    compared: Baseline

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


def judge(spec: ModelSpec, metrics: Mapping[str, float], compared: Baseline) -> GateReport:
    """Compare the metrics of a candidate with the gate of its specification.

    Args:
        spec: The model, with the gate of each metric.
        metrics: Metrics of the candidate, name to number; one that is not finite fails.
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
    if value is None:
        why = _missing_message(name, metrics)
    elif not math.isfinite(value):
        value, why = None, f"{name} is {value}, which is not a finite number"
    elif gate.max_worse is not None and promoted is not None and not math.isfinite(promoted):
        why = f"{name} of the promoted model is {promoted}, which is not a finite number"
        promoted = None
    else:
        why = _limit_failure(name, gate, value, promoted)
    return MetricResult(name, value, gate.min, gate.max, promoted, gate.max_worse, why)


def _missing_message(name: str, metrics: Mapping[str, float]) -> str:
    like = nearest(name, metrics)
    hint = f"; {like}" if like else ""
    return f"there is no metric {name!r}, only {', '.join(sorted(metrics)) or 'none'}{hint}"


def _limit_failure(name: str, gate: MetricGate, value: float, promoted: float | None) -> str:
    if gate.min is not None and value < gate.min:
        return f"{name} is {_text(value)}, below min {_text(gate.min)}"
    if gate.max is not None and value > gate.max:
        return f"{name} is {_text(value)}, above max {_text(gate.max)}"
    if gate.max_worse is None or promoted is None:
        return ""
    worse = _exact(promoted) - _exact(value)
    if gate.better == "lower":
        worse = -worse
    if worse > _exact(gate.max_worse):
        return (
            f"{name} is {_text(value)}, worse by {_text(worse)} than the promoted model's"
            f" {_text(promoted)}; max_worse is {_text(gate.max_worse)}"
        )
    return ""


def _exact(number: float) -> Fraction:
    """Return the decimal number that people see: 0.9 - 0.89 is 0.01, not a little more."""
    return Fraction(repr(float(number)))


def _text(number: float | Fraction) -> str:
    return f"{float(number):.15g}"

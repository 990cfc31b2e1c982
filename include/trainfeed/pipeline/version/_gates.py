"""Quality gates: what must hold of an interval before it may be seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from trainfeed.errors import ConfigError
from trainfeed.pipeline._ref import JsonObject

__all__ = [
    "Counts",
    "FieldFacts",
    "GateResult",
    "because",
    "broken",
    "evaluate",
    "failures",
    "line",
]

# A gate as the specification has it: its check, severity and limits, perhaps a field.
_Gate: TypeAlias = Mapping[str, object]
_Number: TypeAlias = float | None


@dataclass(frozen=True)
class FieldFacts:
    """What gates look at of one field, over all splits.

    Attributes:
        count: Samples.
        nulls: Samples that lack the field.
        not_finite: Values that are NaN or infinite.
        min: The least finite value; None where there is none, as of texts.
        max: The largest finite value, likewise.
    """

    count: int
    nulls: int
    not_finite: int = 0
    min: float | None = None
    max: float | None = None

    @classmethod
    def of(cls, statistics: Mapping[str, object]) -> FieldFacts:
        """Pick them out of the statistics of a field, as JSON."""
        found = cast("Mapping[str, int]", statistics)
        return cls(
            found["count"],
            found["nulls"],
            found.get("not_finite", 0),
            found.get("min"),
            found.get("max"),
        )


@dataclass(frozen=True)
class Counts:
    """What gates look at.

    Attributes:
        read: Source records read.
        quarantined: Records in quarantine.
        samples: Samples of all splits.
        late: Records of topics whose policy is to fail that are stamped before the interval, or
            later than its end and the topic's ``skew``.
        fields: The fields that gates are about.
        filtered: Records that are not wanted.
    """

    read: int
    quarantined: int
    samples: int
    late: int
    fields: Mapping[str, FieldFacts]
    filtered: int = 0

    def to_json(self) -> dict[str, int]:
        """Return the counts of records and samples for a report."""
        names = ("read", "samples", "quarantined", "filtered")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class GateResult:
    """A gate, and what it measured.

    Attributes:
        gate: The gate as the specification, or a manifest, has it.
        value: What was measured: a number, the least and the largest, or words.
        passed: Whether the value is allowed.
    """

    gate: _Gate
    value: object
    passed: bool

    @property
    def check(self) -> str:
        """What the gate measures."""
        return str(self.gate["check"])

    @property
    def field(self) -> str | None:
        """The field that the gate is about; None where it is about none."""
        return _field(self.gate)

    def to_json(self) -> JsonObject:
        """Return the gate as the manifest has it."""
        return {**self.gate, "value": self.value, "passed": self.passed}

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> GateResult:
        """Read what ``to_json`` gives.

        Raises:
            KeyError: A key is missing.
        """
        return cls(value, value["value"], bool(value["passed"]))


def evaluate(gates: Sequence[_Gate], counts: Counts) -> list[GateResult]:
    """Evaluate the gates of a spec."""
    return [_measured(gate, counts) for gate in gates]


def broken(results: Sequence[GateResult], severity: str) -> list[GateResult]:
    """Return the gates of a severity that did not pass."""
    return [r for r in results if not r.passed and r.gate["severity"] == severity]


def failures(results: Sequence[GateResult], severity: str, counts: Counts) -> list[str]:
    """Return one line per gate of a severity that did not pass, as ``line`` gives it."""
    return [line(result, counts) for result in broken(results, severity)]


def line(result: GateResult, counts: Counts) -> str:
    """Return what a gate measured, what is allowed, and what the value is made of."""
    field = f" of {result.field}" if result.field else ""
    limits = ", ".join(
        f"{side} {result.gate[side]}"
        for side in ("min", "max")
        if result.gate.get(side) is not None
    )
    value = _shown(result.value)
    return f"{result.check}{field} is {value}, allowed: {limits} ({because(result, counts)})"


def because(result: GateResult, counts: Counts) -> str:
    """Return the counts that a gate's value is made of."""
    match result.check:
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
            field = counts.fields[str(result.field)]
            return f"{field.nulls} of {field.count} samples lack it"
        case _:
            field = counts.fields[str(result.field)]
            what = "among" if field.not_finite else "least and largest of"
            return f"{what} {field.count} samples"


def _measured(gate: _Gate, counts: Counts) -> GateResult:
    low: _Number
    high: _Number
    match gate["check"]:
        case "quarantine_ratio":
            low = high = counts.quarantined / counts.read if counts.read else 0.0
        case "count":
            low = high = counts.samples
        case "late":
            low = high = counts.late
        case "null_ratio":
            field = counts.fields[str(_field(gate))]
            low = high = field.nulls / field.count if field.count else 0.0
        case "range":
            field = counts.fields[str(_field(gate))]
            low, high = field.min, field.max
            if field.not_finite:
                # NaN and infinity are in no minimum and maximum, and lie in no range.
                return GateResult(gate, f"{field.not_finite} times NaN or infinity", passed=False)
        case unknown:
            raise ConfigError(f"unknown check {unknown!r} in the plan")
    value = low if low == high else [low, high]
    return GateResult(gate, value, passed=_lies_in(gate, low, high))


def _lies_in(gate: _Gate, low: _Number, high: _Number) -> bool:
    # No sample, no minimum: an empty interval breaks no range.
    if low is None or high is None:
        return True
    least, most = (cast("_Number", gate.get(side)) for side in ("min", "max"))
    return (least is None or low >= least) and (most is None or high <= most)


def _field(gate: _Gate) -> str | None:
    return str(gate["field"]) if gate.get("field") else None


def _shown(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)

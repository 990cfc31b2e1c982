"""Quality gates: conditions that an interval must meet to be published."""

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

# A gate of the specification: check, severity, limits, and a field if the check needs one.
_Gate: TypeAlias = Mapping[str, object]
_Number: TypeAlias = float | None


@dataclass(frozen=True)
class FieldFacts:
    """The statistics of one field that gates use, over all splits.

    Attributes:
        count: Number of samples.
        nulls: Number of samples without the field.
        not_finite: Number of values that are NaN or infinite.
        min: The least finite value; None if there is none, for example in texts.
        max: The largest finite value, likewise.
    """

    count: int
    nulls: int
    not_finite: int = 0
    min: float | None = None
    max: float | None = None

    @classmethod
    def of(cls, statistics: Mapping[str, object]) -> FieldFacts:
        """Return the facts from the JSON of a field's statistics."""
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
    """The counts that gates use.

    Attributes:
        read: Number of source records read.
        quarantined: Number of records in quarantine.
        samples: Number of samples of all splits.
        late: Number of records, of topics with the policy ``fail``, that are stamped before the
            interval, or later than its end and the topic's ``skew``.
        fields: The fields that have a gate.
        filtered: Number of records that the function filtered.
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
    """A gate with its measured value.

    Attributes:
        gate: The gate, from the specification or a manifest.
        value: The measured value: a number, least and largest of a field, or words.
        passed: Whether the value is allowed.
    """

    gate: _Gate
    value: object
    passed: bool

    @property
    def check(self) -> str:
        """Name of the gate's check."""
        return str(self.gate["check"])

    @property
    def field(self) -> str | None:
        """The field of the gate, or None."""
        return _field(self.gate)

    def to_json(self) -> JsonObject:
        """Return the gate as the manifest has it."""
        return {**self.gate, "value": self.value, "passed": self.passed}

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> GateResult:
        """Read the JSON of ``to_json``.

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
    """Return the ``line`` of each gate of a severity that did not pass."""
    return [line(result, counts) for result in broken(results, severity)]


def line(result: GateResult, counts: Counts) -> str:
    """Return the value of a gate, the allowed range, and the counts behind the value."""
    field = f" of {result.field}" if result.field else ""
    limits = ", ".join(
        f"{side} {result.gate[side]}"
        for side in ("min", "max")
        if result.gate.get(side) is not None
    )
    value = _shown(result.value)
    return f"{result.check}{field} is {value}, allowed: {limits} ({because(result, counts)})"


def because(result: GateResult, counts: Counts) -> str:
    """Return the counts from which the value of a gate comes, as part of a message."""
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
                # Minimum and maximum leave out NaN and infinity, which are outside of any range.
                return GateResult(gate, f"{field.not_finite} times NaN or infinity", passed=False)
        case unknown:
            raise ConfigError(f"unknown check {unknown!r} in the plan")
    value = low if low == high else [low, high]
    return GateResult(gate, value, passed=_lies_in(gate, low, high))


def _lies_in(gate: _Gate, low: _Number, high: _Number) -> bool:
    # Without samples there is no minimum: an empty interval passes every range.
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

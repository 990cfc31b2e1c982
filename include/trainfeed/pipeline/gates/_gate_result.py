"""A gate with its measured value, and the line about it in messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from trainfeed.pipeline._ref import JsonObject
from trainfeed.pipeline.gates._gate_facts import Counts
from trainfeed.pipeline.quarantine import Example
from trainfeed.specification import Gate, gate_limits, gate_name, shown_number

__all__ = [
    "GateResult",
    "because",
    "broken",
    "failures",
    "line",
    "told",
]

# Texts of a result that its entry in the manifest holds, if there are any.
_TEXTS: Final = ("allowed", "because")
_LONG: Final = frozenset({"distances", "changes"})


@dataclass(frozen=True)
class GateResult:
    """A gate with its measured value.

    Attributes:
        gate: The gate, from the specification or a manifest.
        value: The measured value as JSON: a number, least and largest of a field, words, …
        passed: Whether the value is allowed.
        because: The counts behind the value, as part of a message; empty for checks whose counts
            stand in the manifest anyway.
        allowed: What is allowed, in words; empty for checks with ``min`` and ``max`` alone.
        examples: Samples that do not pass; they stand in messages, not in the manifest.
    """

    gate: Gate
    value: object
    passed: bool
    because: str = ""
    allowed: str = ""
    examples: Sequence[Example] = ()

    @property
    def check(self) -> str:
        """Name of the gate's check."""
        return str(self.gate["check"])

    @property
    def severity(self) -> str:
        """What a failure does: ``block``, ``warn`` or ``ask``."""
        return str(self.gate["severity"])

    @property
    def field(self) -> str | None:
        """The field of the gate, or None."""
        return str(self.gate["field"]) if self.gate.get("field") else None

    def to_json(self) -> JsonObject:
        """Return the gate as the manifest has it."""
        texts = {name: text for name in _TEXTS if (text := getattr(self, name))}
        return {**self.gate, "value": self.value, "passed": self.passed, **texts}

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> GateResult:
        """Read the JSON of ``to_json``.

        Raises:
            KeyError: A key is missing.
        """
        because, allowed = str(value.get("because", "")), str(value.get("allowed", ""))
        return cls(value, value["value"], bool(value["passed"]), because, allowed)


def broken(results: Sequence[GateResult], *severities: str) -> list[GateResult]:
    """Return the gates of some severities that did not pass."""
    return [r for r in results if not r.passed and r.severity in severities]


def failures(results: Sequence[GateResult], severity: str, counts: Counts) -> list[str]:
    """Return the ``line`` of each gate of a severity that did not pass."""
    return [line(result, counts) for result in broken(results, severity)]


def line(result: GateResult, counts: Counts) -> str:
    """Return the value of a gate, what is allowed, and the counts behind the value."""
    entry = result.to_json()
    value, allowed = shown_number(result.value), gate_limits(entry)
    return f"{gate_name(entry)} is {value}, allowed: {allowed} ({because(result, counts)})"


def told(result: GateResult, counts: Counts) -> JsonObject:
    """Return the gate for the reports of pages: its entry, and words for it.

    Distances of a gate ``drift`` and changes of a schema are left out: reports are small, and the
    manifest has them.
    """
    entry = {name: each for name, each in result.to_json().items() if name not in _LONG}
    words = {"name": gate_name(entry), "allowed": gate_limits(entry)}
    return {**entry, **words, "because": because(result, counts)}


def because(result: GateResult, counts: Counts) -> str:
    """Return the counts from which the value of a gate comes, as part of a message."""
    return result.because or _counted(result, counts)


def _counted(result: GateResult, counts: Counts) -> str:
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

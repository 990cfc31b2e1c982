"""The facts about a build, and gates with their measured values and the lines about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias, cast

from trainfeed.core.canonical_json import JsonFields
from trainfeed.pipeline.quarantine import Example
from trainfeed.pipeline.reports import JsonObject
from trainfeed.pipeline.stage import Stage
from trainfeed.samples import FieldStatistics, Schema, Statistics
from trainfeed.specification import Gate, gate_limits, gate_name, shown_number
from trainfeed.versions import Version
from trainfeed.versions.manifest import ShardEntry

# --- The facts about a build that gates are measured against


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
class Counts(JsonFields, without=("late", "fields", "misplaced")):
    """The counts that gates use.

    Attributes:
        read: Number of source records read.
        quarantined: Number of records in quarantine.
        samples: Number of samples of all splits.
        late: Number of records, of topics with the policy ``fail``, that are stamped before the
            interval, or later than its end and the topic's ``skew``.
        fields: The fields that have a gate.
        filtered: Number of records that the function filtered.
        misplaced: ``late``, ``future`` and ``unstamped`` → number of records, of all topics, that
            are stamped before the interval, after it, or not at all.
    """

    read: int
    quarantined: int
    samples: int
    late: int
    fields: Mapping[str, FieldFacts]
    filtered: int = 0
    misplaced: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Facts:
    """Everything that gates may look at.

    Attributes:
        counts: The counts of the build.
        schema: The schema of the build, as in manifests.
        statistics: Split → statistics of its samples.
        shards: Split → its shards in order.
        earlier: Published versions of earlier intervals to compare with, the newest interval
            first: those of the plan's ``references``.
        stage: The stage at work, for gates that read every sample; None where there are none.
    """

    counts: Counts
    schema: Sequence[JsonObject] = ()
    statistics: Mapping[str, Statistics] = field(default_factory=dict)
    shards: Mapping[str, Sequence[ShardEntry]] = field(default_factory=dict)
    earlier: Sequence[Version] = ()
    stage: Stage | None = None


def field_facts(
    gates: Sequence[Mapping[str, object]], schema: Schema, statistics: Mapping[str, Statistics]
) -> dict[str, FieldFacts]:
    """Return the facts of the fields that have a gate, over all splits.

    Only those are merged: a schema may have very many others.
    """
    names = sorted({str(gate["field"]) for gate in gates if gate.get("field")})
    totals = {name: FieldStatistics(schema[name]) for name in names}
    for name, total in totals.items():
        for split in sorted(statistics):
            total.merge(statistics[split].fields[name])
    return {name: FieldFacts.of(total.to_json()) for name, total in totals.items()}


# --- A gate with its measured value, and the line about it in messages

_LONG: Final = frozenset({"distances", "changes"})


@dataclass(frozen=True)
class GateResult(JsonFields, without=("gate", "examples"), optional=("because", "allowed")):
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
        return {**self.gate, **super().to_json()}

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


# --- Values between a least and a largest one: the part that most gates have in common

Number: TypeAlias = float | None


def limited(gate: Gate, value: float | None, because: str = "") -> GateResult:
    """Return the result of a gate whose value is one number; None passes.

    Args:
        gate: A gate with ``min``, ``max`` or both.
        value: The measured value; None if there was nothing to measure.
        because: See ``GateResult``.
    """
    return GateResult(gate, value, passed=lies_in(gate, value, value), because=because)


def lies_in(gate: Gate, low: Number, high: Number) -> bool:
    """Whether the range ``[low, high]`` lies in that of a gate; True without one."""
    if low is None or high is None:
        return True
    least, most = (cast("Number", gate.get(side)) for side in ("min", "max"))
    return (least is None or low >= least) and (most is None or high <= most)

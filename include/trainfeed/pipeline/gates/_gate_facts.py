"""The facts about a build that gates are measured against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from trainfeed.dataset import Version
from trainfeed.dataset.manifest import ShardEntry
from trainfeed.pipeline._ref import JsonObject
from trainfeed.pipeline.stage import Stage
from trainfeed.samples import FieldStatistics, Schema, Statistics

__all__ = ["Counts", "Facts", "FieldFacts", "field_facts"]


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

    def to_json(self) -> dict[str, int]:
        """Return the counts of records and samples for a report."""
        names = ("read", "samples", "quarantined", "filtered")
        return {name: getattr(self, name) for name in names}


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

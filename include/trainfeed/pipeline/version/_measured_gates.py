"""Measures the gates of a plan in ``check``: their facts, and the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainfeed.dataset import Ledger
from trainfeed.dataset.manifest import ShardEntry
from trainfeed.pipeline.gates import (
    Counts,
    Facts,
    GateResult,
    SchemaChange,
    changes_since,
    evaluate,
    field_facts,
    late_gates,
    skew_of,
)
from trainfeed.pipeline.stage import Stage
from trainfeed.pipeline.version._verdict import CheckedShard, LateCounts, filtered_reasons
from trainfeed.samples import Schema, Statistics

__all__ = ["MeasuredGates", "measured_gates"]


@dataclass(frozen=True)
class MeasuredGates:
    """The gates of a plan, measured.

    Attributes:
        counts: The counts behind the values.
        results: Every gate with its value, in the order of the plan.
        changes: Changes of the schema since the newest earlier version.
        skew: Skew of the shards, by samples and by bytes.
    """

    counts: Counts
    results: Sequence[GateResult]
    changes: Sequence[SchemaChange]
    skew: Mapping[str, float]


def measured_gates(
    stage: Stage,
    ledger: Ledger,
    late: LateCounts,
    shards: Sequence[CheckedShard],
    statistics: Mapping[str, Statistics],
) -> MeasuredGates:
    """Measure the gates of a plan.

    Args:
        stage: The stage ``check``.
        ledger: The account of all records.
        late: The records that are stamped outside of the interval.
        shards: All shards.
        statistics: Split → statistics of its samples.

    Raises:
        NotFoundError: A version that the gates compare with is gone.
        FormatError: Such a version, or a work file, is damaged.
        StorageError: A file cannot be read.
    """
    counts = _counted(stage, ledger, statistics, late)
    gates = list(stage.plan.quality)
    if all(gate["check"] != "late" for gate in gates):
        gates += map(dict, late_gates(late.policy.values()))
    facts = Facts(
        counts=counts,
        schema=stage.plan.fields,
        statistics=statistics,
        shards=_by_split(stage, shards),
        earlier=[reference.open(stage.folder) for reference in stage.plan.references],
        stage=stage,
    )
    return MeasuredGates(
        counts, evaluate(gates, facts), changes_since(facts), skew_of(facts.shards)
    )


def _counted(
    stage: Stage, ledger: Ledger, statistics: Mapping[str, Statistics], late: LateCounts
) -> Counts:
    schema = Schema.from_json(stage.plan.fields)
    return Counts(
        read=sum(leaf.read.records for leaf in ledger.values()),
        quarantined=sum(leaf.quarantined.records for leaf in ledger.values()),
        samples=sum(leaf.valid.samples for leaf in ledger.values()),
        late=late.refused,
        fields=field_facts(stage.plan.quality, schema, statistics),
        filtered=sum(filtered_reasons(ledger).values()),
        misplaced={"late": late.late, "future": late.future, "unstamped": late.unstamped},
    )


def _by_split(stage: Stage, shards: Sequence[CheckedShard]) -> dict[str, list[ShardEntry]]:
    found: dict[str, list[ShardEntry]] = {split: [] for split in stage.plan.splits}
    for shard in shards:
        found[shard.split].append(shard.entry)
    return found

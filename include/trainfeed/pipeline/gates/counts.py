"""Gates on the counts of a build: lateness, size of shards, comparison with earlier versions."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Final, cast

from trainfeed.pipeline.gates.result import Facts, FieldFacts, GateResult, lies_in, limited
from trainfeed.samples import FieldStatistics, Schema
from trainfeed.specification import Gate
from trainfeed.versions import Version
from trainfeed.versions.drift import (
    LEAST_VERSIONS,
    Judged,
    Selection,
    Snapshot,
    VersionDrift,
    change,
    drift_of,
    judgement_to_json,
    rule_of,
    selection_of,
)
from trainfeed.versions.manifest import ShardEntry

# --- Gates on the counts of a build, and on the statistics of one field


def quarantine_ratio(gate: Gate, facts: Facts) -> GateResult:
    """Measure the share of records in quarantine."""
    counts = facts.counts
    return limited(gate, counts.quarantined / counts.read if counts.read else 0.0)


def count(gate: Gate, facts: Facts) -> GateResult:
    """Measure the number of samples."""
    return limited(gate, facts.counts.samples)


def late(gate: Gate, facts: Facts) -> GateResult:
    """Measure the number of records that are stamped outside of the interval."""
    return limited(gate, facts.counts.late)


def null_ratio(gate: Gate, facts: Facts) -> GateResult:
    """Measure the share of samples without a field."""
    field = _field(gate, facts)
    return limited(gate, field.nulls / field.count if field.count else 0.0)


def value_range(gate: Gate, facts: Facts) -> GateResult:
    """Measure the least and the largest value of a field.

    Without samples there is no least value: an empty interval passes every range.
    """
    field = _field(gate, facts)
    if field.not_finite:
        # Minimum and maximum leave out NaN and infinity, which are outside of any range.
        # Waivers compare the value, this text too: it is part of the format.
        return GateResult(gate, f"{field.not_finite} times NaN or infinity", passed=False)
    low, high = field.min, field.max
    value = low if low == high else [low, high]
    return GateResult(gate, value, passed=lies_in(gate, low, high))


def _field(gate: Gate, facts: Facts) -> FieldFacts:
    return facts.counts.fields[str(gate["field"])]


# --- The gate on records whose stamps do not lie in the interval

_WORDS: Final = {
    "late": "stamped before the interval",
    "future": "stamped after the interval",
    "unstamped": "without a stamp",
}


def late_ratio(gate: Gate, facts: Facts) -> GateResult:
    """Measure the share of records that are stamped outside of the interval, or not at all."""
    counts, kind = facts.counts, str(gate["of"])
    found = counts.misplaced.get(kind, 0)
    because = f"{found} of {counts.read} records {_WORDS[kind]}"
    return limited(gate, found / counts.read if counts.read else 0.0, because)


# --- The gate ``relative_count``: the count of a build, compared with those of earlier versions


def relative_count(gate: Gate, facts: Facts) -> GateResult:
    """Measure the count divided by the median of the counts of earlier versions.

    Versions without a record or sample say nothing about what is usual, and are left out. Without
    any other version the value is None, and passes.
    """
    what = str(gate["of"])
    earlier = facts.earlier[: cast("int", gate["versions"])]
    counts = {version.name: count for version in earlier if (count := _count(version, what))}
    if not counts:
        return limited(gate, None, f"no earlier version with {what}")
    now = facts.counts.samples if what == "samples" else facts.counts.read
    usual = statistics.median(counts.values())
    return limited(gate, now / usual, f"{now} {what}, {_told(counts)}")


def _count(version: Version, what: str) -> int:
    manifest = version.manifest
    if what == "samples":
        return manifest.num_samples()
    return manifest.records_read


def _told(counts: dict[str, int]) -> str:
    """Return with what the count is compared; ``counts`` has the newest version first."""
    names = list(counts)
    if len(names) == 1:
        return f"{counts[names[0]]} in {names[0]}"
    usual = statistics.median(counts.values())
    return f"median {usual:.6g} of the {len(names)} versions {names[-1]} to {names[0]}"


# --- The gate ``shard_skew``: how much larger the largest shard of a split is than the mean


def shard_skew(gate: Gate, facts: Facts) -> GateResult:
    """Measure the largest shard divided by the mean shard of its split, in the worst split."""
    what = str(gate["of"])
    skews = _skews(facts.shards, what)
    if not skews:
        return limited(gate, None, "no split has several shards with samples")
    split = max(skews, key=lambda name: skews[name])
    sizes = {shard.name: int(getattr(shard, what)) for shard in facts.shards[split]}
    largest = max(sizes, key=lambda name: sizes[name])
    mean = sum(sizes.values()) / len(sizes)
    because = (
        f"{largest} has {sizes[largest]} {what}, the mean of {len(sizes)} shards is {mean:.6g}"
    )
    return limited(gate, skews[split], because)


def skew_of(shards: Mapping[str, Sequence[ShardEntry]]) -> dict[str, float]:
    """Return the skew by samples and by bytes; empty if no split has several shards.

    Args:
        shards: Split → its shards.
    """
    found = {what: _skews(shards, what) for what in ("samples", "bytes")}
    return {what: max(skews.values()) for what, skews in found.items() if skews}


def _skews(shards: Mapping[str, Sequence[ShardEntry]], what: str) -> dict[str, float]:
    """Return the skew of every split with several shards that has samples at all."""
    found = {}
    for split in sorted(shards):
        sizes = [int(getattr(shard, what)) for shard in shards[split]]
        if len(sizes) > 1 and any(shard.samples for shard in shards[split]):
            found[split] = max(sizes) * len(sizes) / sum(sizes)
    return found


# --- The gate ``drift``: distributions of a build against those of earlier versions

_MOST_NAMED: Final = 5


def drift(gate: Gate, facts: Facts) -> GateResult:
    """Measure how many fields and components have a distance beyond its limit.

    The entry of the manifest has all distances with their limits: later versions make their limits
    of them.
    """
    rule, selection = rule_of(gate), selection_of(gate)
    *_, found = drift_of(_versions(facts, selection), rule, selection)
    return GateResult(
        {**gate, "distances": judgement_to_json(found.judgement)},
        len(found.beyond),
        passed=not found.beyond,
        because=_because(found, rule.reference),
        allowed="no field or component beyond its limit",
    )


def _versions(facts: Facts, selection: Selection) -> list[Snapshot]:
    earlier = [Snapshot.of(version, selection) for version in reversed(facts.earlier)]
    return [*earlier, Snapshot("this build", lambda: _totals(facts, selection))]


def _totals(facts: Facts, selection: Selection) -> dict[str, FieldStatistics]:
    """Return the statistics of the selected fields over all splits."""
    schema = selection.schema(Schema.from_json(facts.schema))
    totals: dict[str, FieldStatistics] = {}
    for field in schema or ():
        parts = [facts.statistics[split].fields[field.name] for split in sorted(facts.statistics)]
        whole = all(part.has_components for part in parts)
        totals[field.name] = FieldStatistics(field, components=whole)
        for part in parts:
            totals[field.name].merge(part)
    return totals


def _because(found: VersionDrift, reference: int) -> str:
    judged = [each for part in found.judgement.values() for each in part.values()]
    if not any(each.limit is not None for each in judged):
        if found.versions >= LEAST_VERSIONS:
            return f"not judged: nothing that {LEAST_VERSIONS} earlier versions have"
        return f"not judged: {found.versions} of {LEAST_VERSIONS} versions"
    if not found.beyond:
        against = min(reference, found.versions)
        return f"{len(found.judgement)} fields and components against {against} earlier versions"
    compared = found.compared()
    named = [
        f"{part}: {_distances(found.judgement[part])}; {change(compared[part])}"
        for part in found.beyond[:_MOST_NAMED]
    ]
    if len(found.beyond) > _MOST_NAMED:
        named.append(f"and {len(found.beyond) - _MOST_NAMED} more")
    return " | ".join(named)


def _distances(measures: Mapping[str, Judged]) -> str:
    return ", ".join(
        f"{measure} {each.distance:.3g} beyond {each.limit:.3g}"
        for measure, each in measures.items()
        if each.is_beyond
    )

"""The gate ``shard_skew``: how much larger the largest shard of a split is than the mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainfeed.dataset.manifest import ShardEntry
from trainfeed.pipeline.gates._gate_facts import Facts
from trainfeed.pipeline.gates._gate_result import GateResult
from trainfeed.pipeline.gates._limited import limited
from trainfeed.specification import Gate

__all__ = ["shard_skew", "skew_of"]


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

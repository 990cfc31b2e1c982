"""The gate ``relative_count``: the count of a build, compared with those of earlier versions."""

from __future__ import annotations

import statistics
from typing import cast

from trainfeed.dataset import Version
from trainfeed.pipeline.gates._gate_facts import Facts
from trainfeed.pipeline.gates._gate_result import GateResult
from trainfeed.pipeline.gates._limited import limited
from trainfeed.specification import Gate

__all__ = ["relative_count"]


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
    return sum(int(leaf["read"]["records"]) for leaf in manifest.ledger.values())


def _told(counts: dict[str, int]) -> str:
    """Return with what the count is compared; ``counts`` has the newest version first."""
    names = list(counts)
    if len(names) == 1:
        return f"{counts[names[0]]} in {names[0]}"
    usual = statistics.median(counts.values())
    return f"median {usual:.6g} of the {len(names)} versions {names[-1]} to {names[0]}"

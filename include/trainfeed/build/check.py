"""Stage ``check``: prove that nothing was lost or doubled, then hold the result against the gates.

The ledger of what was published is recomputed from the positions that lie beside the shards, and
compared with what preprocessing says it let through; reads only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed import faults
from trainfeed.build._gates import Counts, evaluate, failures
from trainfeed.build._inputs import late_policies
from trainfeed.build._ref import PlanRef
from trainfeed.build._spill import ArrowWithTrailer
from trainfeed.build._stage import Stage, run_stage
from trainfeed.config import Environment
from trainfeed.dataset import Leaf, Ledger, SourceLedger, ValidLeaf, canonical
from trainfeed.dataset.identity import source_hash
from trainfeed.errors import GateError
from trainfeed.samples import Schema, Statistics
from trainfeed.spec import DatasetSpec

__all__ = ["check"]

# A mask per source is fastest for the partitions of a topic, and hopeless for thousands of files.
_FEW_SOURCES: Final = 32


def check(spec: DatasetSpec, env: Environment, ref: PlanRef) -> dict[str, Any]:
    """Prove completeness and evaluate the gates.

    Returns:
        ``verdict``, ``samples``, ``quarantined``, ``filtered``, ``warnings``, ``proof``.

    Raises:
        GateError: Ledgers differ, or a blocking gate failed; both sides are in the message.
    """
    return run_stage("check", (spec, env, ref), _check)


def _check(stage: Stage) -> dict[str, Any]:
    trailers = list(_spill_trailers(stage))
    ledger = _ledger(stage, trailers)
    quarantine = _recount_quarantine(stage, ledger)
    shards, statistics = _recount_shards(stage, ledger)
    late = _late(stage, trailers)
    verdict: dict[str, Any] = {
        # Gates may change under one plan id: a verdict counts for the plan that it was reached on.
        "plan_sha256": stage.plan.sha256(),
        "ledger": ledger.to_json(),
        "quarantine": quarantine,
        "filtered": _filtered(ledger),
        "late": late,
        "shards": shards,
        "statistics": {split: part.to_json() for split, part in statistics.items()},
        "gates": _gates(stage, ledger, statistics, late),
    }
    blocked = failures(verdict["gates"], "block")
    if blocked:
        raise GateError(
            f"{stage.plan.dataset}/{stage.plan.interval['name']} is not published:"
            f" {'; '.join(blocked)}; landing files are kept; mend the source, the function or the"
            " gate in dataset.yaml, then start the run anew"
        )
    data = canonical.dumps(verdict)
    stage.verdict_file.write_atomic(lambda file: _write(file, data))
    return {
        "verdict": "built",
        "samples": sum(leaf.valid.samples for leaf in ledger.values()),
        "quarantined": quarantine["records"],
        "filtered": sum(verdict["filtered"].values()),
        "warnings": failures(verdict["gates"], "warn"),
        # Without published positions nobody can repeat the proof from the version alone.
        "proof": "positions" if stage.spec.output.positions else "spill",
    }


def _write(file: BinaryIO, data: bytes) -> None:
    file.write(data)
    faults.point("check.before_rename")


def _spill_trailers(stage: Stage) -> Iterator[Mapping[str, Any]]:
    for group in range(len(stage.plan.preprocess)):
        with closing(ArrowWithTrailer(stage.spill_file(group))) as spill:
            yield spill.trailer


def _ledger(stage: Stage, trailers: list[Mapping[str, Any]]) -> Ledger:
    """Return what preprocessing accounted for, having checked that it saw every range once."""
    seen = sorted(index for trailer in trailers for index in trailer["ranges"])
    if seen != list(range(len(stage.plan.ranges))):
        raise GateError(
            f"spill files hold ranges {seen}, the plan has {len(stage.plan.ranges)}; clear the"
            " preprocess tasks of this run"
        )
    empty = {source: SourceLedger() for source in stage.plan.sources}
    parts = [Ledger.from_json(trailer["ledger"]) for trailer in trailers]
    ledger = Ledger.total([empty, *parts])
    if imbalances := ledger.imbalances():
        raise GateError(_unequal("preprocessing did not account for every record", imbalances))
    return ledger


def _recount_quarantine(stage: Stage, ledger: Ledger) -> dict[str, Any]:
    """Compare the quarantine files with the ledger; return records and counts by reason."""
    reasons: dict[str, int] = {}
    found = dict.fromkeys(stage.plan.sources, Leaf())
    for group in range(len(stage.plan.preprocess)):
        with closing(ArrowWithTrailer(stage.quarantine_file(group))) as file:
            for table in file.iter_tables():
                offsets = table["offset"].to_numpy()
                for source, rows in _by_source(stage, table["source"].to_numpy()):
                    found[source] += Leaf.of(source_hash(source), offsets[rows], 0)
                for entry in table["reason"].value_counts().to_pylist():
                    reasons[entry["values"]] = reasons.get(entry["values"], 0) + entry["counts"]
    _compare("quarantine", found, {source: leaf.quarantined for source, leaf in ledger.items()})
    return {"records": sum(reasons.values()), "reasons": reasons}


def _recount_shards(
    stage: Stage, ledger: Ledger
) -> tuple[list[dict[str, Any]], dict[str, Statistics]]:
    """Recompute the valid side from the positions of the shards; return shards and statistics."""
    schema = Schema.from_json(stage.plan.fields)
    statistics = {split: Statistics(schema) for split in stage.plan.splits}
    found = dict.fromkeys(stage.plan.sources, ValidLeaf())
    shards = []
    for shard in stage.plan.all_shards():
        with closing(ArrowWithTrailer(stage.part_file(shard))) as part:
            positions, trailer = part.read_all(), part.trailer
        offsets, ordinals = positions["offset"].to_numpy(), positions["ordinal"].to_numpy()
        for source, rows in _by_source(stage, positions["source"].to_numpy()):
            found[source] += ValidLeaf.of(source_hash(source), offsets[rows], ordinals[rows], 0)
        if trailer["shard"]["samples"] != len(positions):
            raise GateError(f"shard {trailer['shard']['name']} and its positions differ in number")
        statistics[shard.split].merge(Statistics.from_json(schema, trailer["statistics"]))
        shards.append({"split": shard.split, **trailer["shard"]})
    _compare("shards", found, {source: leaf.valid for source, leaf in ledger.items()})
    return shards, statistics


def _by_source(
    stage: Stage, indices: NDArray[np.integer[Any]]
) -> Iterator[tuple[str, NDArray[np.bool_] | NDArray[np.intp]]]:
    """Yield sources, all that occur in a column of source indices, and what selects their rows."""
    sources = stage.plan.sources
    if len(sources) <= _FEW_SOURCES:
        yield from ((source, indices == index) for index, source in enumerate(sources))
        return
    order = np.argsort(indices, kind="stable")
    counts = np.bincount(indices, minlength=len(sources))
    ends = np.cumsum(counts)
    for index in np.flatnonzero(counts).tolist():
        yield sources[index], order[ends[index] - counts[index] : ends[index]]


def _compare(
    what: str, found: Mapping[str, Leaf | ValidLeaf], expected: Mapping[str, Leaf | ValidLeaf]
) -> None:
    lines = [
        f"{source}: {what} hold {_counts(found[source])}, preprocessing let through {_counts(leaf)}"
        for source, leaf in expected.items()
        if _counts(found[source]) != _counts(leaf)
    ]
    if lines:
        raise GateError(
            _unequal(f"records were lost, doubled or swapped on the way to {what}", lines)
        )


def _counts(leaf: Leaf | ValidLeaf) -> dict[str, Any]:
    """Return everything but the bytes, which positions do not tell."""
    return {name: value for name, value in leaf.to_json().items() if name != "bytes"}


def _unequal(what: str, lines: list[str]) -> str:
    return (
        f"{what}; nothing was published, landing files are kept; clear the run from preprocess"
        f" on:\n" + "\n".join(lines)
    )


def _late(stage: Stage, trailers: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Add up the records stamped outside of the window, and those that no policy lets pass."""
    policies = late_policies(stage.spec, stage.plan.inputs)
    parts = [(source, part) for trailer in trailers for source, part in trailer["late"].items()]
    return {
        "policy": {stage.plan.inputs[source].label: policies[source] for source in policies},
        "late": sum(part["late"] for _, part in parts),
        "future": sum(part["future"] for _, part in parts),
        "max_lateness_ms": max((part["max_lateness_ms"] for _, part in parts), default=0),
        "refused": sum(part["late"] for source, part in parts if policies[source] == "fail"),
    }


def _filtered(ledger: Ledger) -> dict[str, int]:
    reasons: dict[str, int] = {}
    for source in ledger.values():
        for reason, leaf in source.filtered.items():
            reasons[reason] = reasons.get(reason, 0) + leaf.records
    return reasons


def _gates(
    stage: Stage, ledger: Ledger, statistics: Mapping[str, Statistics], late: Mapping[str, Any]
) -> list[dict[str, Any]]:
    total = Statistics(Schema.from_json(stage.plan.fields))
    for split in stage.plan.splits:
        total.merge(statistics[split])
    counts = Counts(
        read=sum(leaf.read.records for leaf in ledger.values()),
        quarantined=sum(leaf.quarantined.records for leaf in ledger.values()),
        samples=sum(leaf.valid.samples for leaf in ledger.values()),
        late=late["refused"],
        statistics=total.to_json(),
    )
    gates = list(stage.plan.quality)
    if "fail" in late["policy"].values():
        gates.append({"check": "late", "max": 0, "severity": "block"})
    return evaluate(gates, counts)

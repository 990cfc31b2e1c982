"""Stage ``check``: prove that nothing was lost or doubled, then hold the result against the gates.

The stage recomputes the ledger from the positions beside the shards, and compares it with the
ledger of preprocessing. It writes its verdict; or the failed gates, which a person may waive.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import BinaryIO, Final

from trainfeed import faults
from trainfeed.dataset import Leaf, Ledger, SourceLedger, ValidLeaf
from trainfeed.dataset.order import source_hash
from trainfeed.errors import GateError
from trainfeed.pipeline._ref import Build
from trainfeed.pipeline._stage_reports import CheckReport, PublishedBefore
from trainfeed.pipeline.functions import RecordAccount
from trainfeed.pipeline.gates import Counts, failures
from trainfeed.pipeline.inputs import late_policies
from trainfeed.pipeline.labels import JoinAccount, JoinCounts, count_used
from trainfeed.pipeline.plans import first_few
from trainfeed.pipeline.sorting import QUARANTINE_SCHEMA, ArrowWithTrailer
from trainfeed.pipeline.stage import Stage, kept, measured_again, run_stage
from trainfeed.pipeline.version import (
    CheckedShard,
    LateCounts,
    QuarantineCounts,
    ShardPart,
    Verdict,
    check_report,
    filtered_reasons,
    measured_gates,
    rows_by_source,
)
from trainfeed.pipeline.waivers import judged
from trainfeed.samples import Schema, Statistics

__all__ = ["check"]

logger = logging.getLogger(__name__)

_REMEDY: Final = "build the interval again (in Airflow: clear the run from preprocess on)"


def check(build: Build) -> CheckReport | PublishedBefore:
    """Prove completeness and evaluate the gates.

    Returns:
        The counts, and the report for pages; the verdict is built or published.

    Raises:
        GateError: Ledgers differ (the message has both sides), or a gate failed that blocks or
            asks and is not waived; message and ``report`` have reasons, examples, places.
    """
    return run_stage("check", build, _check)


def _check(stage: Stage) -> CheckReport:
    verdict, counts = _proved(stage)
    verdict = judged(stage, verdict, counts)
    name = f"{stage.plan.dataset}/{stage.plan.interval['name']}"
    warnings = failures(verdict.gates, "warn", counts)
    for told in warnings:
        logger.warning("check %s: a gate failed, and its severity is warn: %s", name, told)
    for waiver in verdict.waivers:
        logger.warning("check %s: failed gates pass by a waiver: %s", name, waiver.told)
    data = verdict.to_bytes()
    stage.verdict_file.write_atomic(lambda file: _write(file, data))
    return CheckReport(
        samples=counts.samples,
        quarantined=verdict.quarantine.records,
        filtered=counts.filtered,
        warnings=warnings,
        waived=[waiver.told for waiver in verdict.waivers],
        # Without published positions the proof cannot be repeated from the version alone.
        proof="positions" if stage.spec.output.positions else "spill",
        report=check_report(stage, verdict, counts),
    )


def _write(file: BinaryIO, data: bytes) -> None:
    file.write(data)
    faults.point("check.before_rename")


def _proved(stage: Stage) -> tuple[Verdict, Counts]:
    """Prove completeness; return the verdict, with the value of every gate, and the counts."""
    with measured_again(stage):
        accounts = list(_accounts(stage))
        ledger = _ledger(stage, accounts)
        quarantine = _recount_quarantine(stage, ledger)
        shards, statistics = _recount_shards(stage, ledger)
        joined = _joined(stage, accounts, ledger)
    late = _late(stage, accounts)
    measured = measured_gates(stage, ledger, late, shards, statistics)
    verdict = Verdict(
        dataset=stage.plan.dataset,
        interval=stage.plan.interval_name,
        plan_id=stage.plan.plan_id,
        plan_sha256=stage.plan_sha256,
        ledger=ledger,
        quarantine=quarantine,
        filtered=filtered_reasons(ledger),
        late=late,
        shards=shards,
        statistics={split: part.to_json() for split, part in statistics.items()},
        gates=measured.results,
        joined=joined,
        schema_changes=[change.to_json() for change in measured.changes],
        shard_skew=measured.skew,
    )
    return verdict, measured.counts


def _accounts(stage: Stage) -> Iterator[RecordAccount]:
    cut = stage.plan.cut_sha256()
    for group in range(len(stage.plan.preprocess)):
        path = stage.spill_file(group)
        with closing(ArrowWithTrailer(path)) as spill:
            account = RecordAccount.from_json(spill.trailer)
        # Files of earlier releases do not say it.
        if account.cut is not None and account.cut != cut:
            raise GateError(
                f"{path.uri} is of a plan of another fingerprint, or that cut the inputs in another"
                f" way, and was replaced in mid-build; {kept(stage.spec)}; {_REMEDY}"
            )
        yield account


def _ledger(stage: Stage, accounts: list[RecordAccount]) -> Ledger:
    """Return the ledger of preprocessing; checks first that every range was processed once."""
    seen = sorted(index for account in accounts for index in account.ranges)
    if seen != list(range(len(stage.plan.ranges))):
        raise GateError(
            f"expected spill files of {len(stage.plan.ranges)} ranges, as the plan has them, got"
            f" {len(seen)}; {kept(stage.spec)}; {_REMEDY}"
        )
    empty = {source: SourceLedger() for source in stage.plan.sources}
    ledger = Ledger.total([empty, *(account.ledger for account in accounts)])
    if imbalances := ledger.imbalances():
        what = "preprocessing did not account for every record"
        raise GateError(_unequal(stage, what, imbalances))
    return ledger


def _recount_quarantine(stage: Stage, ledger: Ledger) -> QuarantineCounts:
    """Compare the quarantine files with the ledger; return the number of records by reason."""
    reasons: dict[str, int] = {}
    found = dict.fromkeys(stage.plan.sources, Leaf())
    for group in range(len(stage.plan.preprocess)):
        with closing(ArrowWithTrailer(stage.quarantine_file(group), QUARANTINE_SCHEMA)) as file:
            for table in file.iter_tables():
                offsets = table["offset"].to_numpy()
                for source, rows in rows_by_source(stage.plan.sources, table["source"].to_numpy()):
                    # 0 bytes: positions have no sizes, and ``_compare`` leaves bytes out.
                    found[source] += Leaf.of(source_hash(source), offsets[rows], 0)
                for entry in table["reason"].value_counts().to_pylist():
                    reasons[entry["values"]] = reasons.get(entry["values"], 0) + entry["counts"]
    _compare(
        stage, "quarantine", found, {source: leaf.quarantined for source, leaf in ledger.items()}
    )
    return QuarantineCounts(reasons)


def _recount_shards(
    stage: Stage, ledger: Ledger
) -> tuple[list[CheckedShard], dict[str, Statistics]]:
    """Recompute the valid side from the positions of the shards; return shards and statistics."""
    schema = Schema.from_json(stage.plan.fields)
    statistics = {split: Statistics(schema) for split in stage.plan.splits}
    found = dict.fromkeys(stage.plan.sources, ValidLeaf())
    shards = []
    for shard in stage.plan.all_shards():
        with closing(ArrowWithTrailer(stage.part_file(shard))) as file:
            positions, part = file.read_all(), ShardPart.from_json(file.trailer)
        offsets, ordinals = positions["offset"].to_numpy(), positions["ordinal"].to_numpy()
        for source, rows in rows_by_source(stage.plan.sources, positions["source"].to_numpy()):
            found[source] += ValidLeaf.of(source_hash(source), offsets[rows], ordinals[rows], 0)
        if part.entry.name != stage.plan.shard_name(shard):
            raise GateError(
                f"{stage.part_file(shard).uri} is about shard {part.entry.name}, and was put in the"
                f" place of another file; {kept(stage.spec)}; {_REMEDY}"
            )
        if part.entry.samples != len(positions):
            raise GateError(
                f"expected {part.entry.samples} positions of shard {part.entry.name}, got"
                f" {len(positions)}; {kept(stage.spec)}; {_REMEDY}"
            )
        statistics[shard.split].merge(Statistics.from_json(schema, part.statistics))
        shards.append(CheckedShard(shard.split, part.entry))
    _compare(stage, "shards", found, {source: leaf.valid for source, leaf in ledger.items()})
    return shards, statistics


def _compare(
    stage: Stage,
    what: str,
    found: Mapping[str, Leaf | ValidLeaf],
    expected: Mapping[str, Leaf | ValidLeaf],
) -> None:
    lines = [
        f"{source}: {what} hold {_counts(found[source])}, preprocessing let through {_counts(leaf)}"
        for source, leaf in expected.items()
        if _counts(found[source]) != _counts(leaf)
    ]
    if lines:
        raise GateError(
            _unequal(stage, f"records were lost, doubled or swapped on the way to {what}", lines)
        )


def _counts(leaf: Leaf | ValidLeaf) -> dict[str, int | str]:
    """Return all counts but the bytes, which positions do not have."""
    return {name: value for name, value in leaf.to_json().items() if name != "bytes"}


def _unequal(stage: Stage, what: str, lines: list[str]) -> str:
    return f"{what}: {first_few(lines)}; {kept(stage.spec)}; {_REMEDY}"


def _joined(stage: Stage, accounts: list[RecordAccount], ledger: Ledger) -> JoinAccount | None:
    """Count the labels that the samples of all tasks used; checks the sums of the join."""
    samples = RecordAccount.total(accounts).joined or JoinCounts()
    joined = count_used(stage, samples)
    if joined is None or stage.spec.uploads is None:
        return None
    valid = sum(leaf.valid.samples for leaf in ledger.values())
    if lines := joined.imbalances(valid, stage.spec.uploads.join):
        raise GateError(_unequal(stage, "the join with uploads did not account for all", lines))
    return joined


def _late(stage: Stage, accounts: list[RecordAccount]) -> LateCounts:
    """Add up the records stamped outside the interval, and those that the policy refuses."""
    policies = late_policies(stage.spec, stage.plan.inputs)
    late = RecordAccount.total(accounts).late
    refused = [part for source, part in late.items() if policies[source] == "fail"]
    return LateCounts(
        policy={stage.plan.inputs[source].label: policies[source] for source in policies},
        late=sum(part.late for part in late.values()),
        future=sum(part.future for part in late.values()),
        max_lateness_ms=max((part.max_lateness_ms for part in late.values()), default=0),
        refused=sum(part.late + part.ahead for part in refused),
        unstamped=sum(part.unstamped for part in late.values()),
        ahead=sum(part.ahead for part in late.values()),
    )

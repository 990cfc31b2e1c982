"""Stage ``check``: prove that nothing was lost or doubled, then hold the result against the gates.

The stage recomputes the ledger from the positions beside the shards, and compares it with the
ledger of preprocessing. It writes its verdict; or the failed gates, which a person may waive.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO, Final, cast

import numpy as np
from numpy.typing import NDArray

from trainfeed.core import faults
from trainfeed.errors import FormatError, GateError, TrainFeedError
from trainfeed.pipeline.functions.account import RecordAccount
from trainfeed.pipeline.gates.counts import skew_of
from trainfeed.pipeline.gates.kinds import evaluate, late_gates
from trainfeed.pipeline.gates.result import (
    Counts,
    Facts,
    GateResult,
    broken,
    failures,
    field_facts,
    line,
    told,
)
from trainfeed.pipeline.gates.schema import SchemaChange, changes_since
from trainfeed.pipeline.inputs.record_rules import late_policies
from trainfeed.pipeline.labels import JoinAccount, JoinCounts, count_used
from trainfeed.pipeline.members import label_of
from trainfeed.pipeline.plans import first_few
from trainfeed.pipeline.quarantine import (
    Example,
    Reason,
    plain,
    quarantine_of_plan,
    told_reasons,
    turned_down,
)
from trainfeed.pipeline.reports import Build, CheckReport, JsonObject, PlanRef, PublishedBefore
from trainfeed.pipeline.run_stage import measured_again, run_stage
from trainfeed.pipeline.sorting.spill_files import QUARANTINE_SCHEMA, ArrowWithTrailer
from trainfeed.pipeline.stage import Stage, kept
from trainfeed.pipeline.version import (
    VERDICTS,
    CheckedShard,
    LateCounts,
    QuarantineCounts,
    ShardPart,
    Verdict,
    filtered_reasons,
)
from trainfeed.samples import Schema, Statistics, TypedCodec
from trainfeed.specification import gate_name, shown_number
from trainfeed.versions import DatasetFolder, Leaf, Ledger, SourceLedger, ValidLeaf
from trainfeed.versions.manifest import ShardEntry
from trainfeed.versions.order import source_hash
from trainfeed.versions.waive import (
    Applied,
    Gate,
    Refused,
    Waiver,
    apply_waivers,
    is_same_gate,
    read_applied,
    read_waivers,
    write_refused,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


# --- Divides rows by the source of their records

# One mask over all rows per source is fastest for a few sources (partitions of a topic), and
# quadratic for many (thousands of files): above this number, rows are sorted by source.
_FEW_SOURCES: Final = 32


def rows_by_source(
    sources: Sequence[str], indices: NDArray[np.int32]
) -> Iterator[tuple[str, NDArray[np.bool_] | NDArray[np.intp]]]:
    """Yield each source of a column of source indices, with the mask or indices of its rows."""
    if len(sources) <= _FEW_SOURCES:
        yield from ((source, indices == index) for index, source in enumerate(sources))
        return
    order = np.argsort(indices, kind="stable")
    counts = np.bincount(indices, minlength=len(sources))
    ends = np.cumsum(counts)
    for index in np.flatnonzero(counts).tolist():
        yield sources[index], order[ends[index] - counts[index] : ends[index]]


# --- Measures the gates of a plan in ``check``: their facts, and the results


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


# --- The error of an interval that is not published: gates, reasons, examples, place, remedy

_MOST_GATES: Final = 10
_MOST_CHARS: Final = 8_000
_REMEDY: Final = (
    "fix the source, the function or the gate in dataset.yaml, then build the interval again"
    " (in Airflow: trigger it again)"
)
_MOST_EXAMPLES: Final = 2
# Their statistics do not say which samples they come from.
_SEARCHED: Final = frozenset({"null_ratio", "range"})
# Decoding a sample takes about 10 µs: the search for examples may take a second, not an hour.
_MOST_SAMPLES: Final = 100_000


def refusal(
    stage: Stage,
    verdict: Verdict,
    counts: Counts,
    gates: Sequence[GateResult],
    notes: Sequence[str],
) -> GateError:
    """Return the error of failed gates that stop a build.

    Args:
        stage: The stage ``check``.
        verdict: The verdict of the stage.
        counts: The counts that the gates used.
        gates: The failed gates that block or ask, and are not waived; at least one.
        notes: Why waivers of the plan do not let them pass.
    """
    reasons = _reasons(stage, verdict.quarantine.reasons)
    examples = {
        number: _examples(stage, gate) if number < _MOST_GATES else ()
        for number, gate in enumerate(gates)
    }
    name = f"{stage.plan.dataset}/{stage.plan.interval['name']}"
    lines = _gate_lines(gates, examples, counts)
    lines[0] = f"{name} is not published: {lines[0]}"
    lines += _what_became(stage, verdict, reasons)
    # What to do is never cut off.
    end = "\n".join(
        [*notes, kept(stage.spec), f"{_REMEDY}; or let it pass: {waive_command(stage)}"]
    )
    report = check_report(stage, verdict, counts, reasons)
    message = "\n".join(lines)[: max(0, _MOST_CHARS - len(end))]
    return GateError(
        f"{message}\n{end}",
        report={**report, "offending": _offending(gates, examples)},
        question=_question(stage, gates),
    )


def _question(stage: Stage, gates: Sequence[GateResult]) -> JsonObject | None:
    if any(gate.severity != "ask" for gate in gates):
        return None
    return {"plan_sha256": stage.plan_sha256, "gates": [gate.to_json() for gate in gates]}


def check_report(
    stage: Stage, verdict: Verdict, counts: Counts, reasons: Sequence[Reason] = ()
) -> JsonObject:
    """Return the report of the stage for pages: small JSON.

    Returns:
        ``counts``, ``reasons`` (the most frequent, with examples), ``filtered``, ``gates`` with
        value and the counts behind it, ``waivers``, ``quarantine`` (place of the records) and
        ``command``.
    """
    quarantined = verdict.quarantine.reasons
    shown = reasons or [Reason(name, records) for name, records in quarantined.items()]
    return {
        "counts": counts.to_json(),
        "reasons": [reason.to_json() for reason in shown[:_MOST_GATES]],
        "filtered": dict(list(verdict.filtered.items())[:_MOST_GATES]),
        "gates": [told(gate, counts) for gate in verdict.gates],
        "waivers": [waiver.to_json() for waiver in verdict.waivers],
        "quarantine": stage.spill.uri if quarantined else None,
        "command": look_command(stage) if quarantined else None,
    }


def look_command(stage: Stage) -> str:
    """Return the command that shows the quarantined records of the plan."""
    plan = stage.plan
    return f"trainfeed quarantine show {plan.dataset}/{plan.interval['name']} --plan {plan.plan_id}"


def waive_command(stage: Stage) -> str:
    """Return the command by which a person lets the failed gates of the plan pass."""
    plan = stage.plan
    name = f"{plan.dataset}/{plan.interval['name']}"
    return f"trainfeed waive {name} --plan {plan.plan_id} --why WHY --until TIME"


def _gate_lines(
    gates: Sequence[GateResult], examples: Mapping[int, Sequence[Example]], counts: Counts
) -> list[str]:
    lines = []
    for number, gate in enumerate(gates[:_MOST_GATES]):
        lines.append(f"{'and ' if number else ''}{line(gate, counts)}")
        for example in examples[number]:
            lines += example.lines(gate.check)
    if len(gates) > _MOST_GATES:
        lines.append(f"and {len(gates) - _MOST_GATES} more gates failed")
    return lines


def _reasons(stage: Stage, counts: Mapping[str, int]) -> list[Reason]:
    # Examples are only an addition: an error while they are read must not hide the failed gate.
    with suppress(TrainFeedError):
        return turned_down(quarantine_of_plan(stage.env, stage.plan.ref()), counts)
    return [Reason(name, records) for name, records in counts.items()]


def _what_became(stage: Stage, verdict: Verdict, reasons: Iterable[Reason]) -> list[str]:
    lines = []
    if quarantined := verdict.quarantine.reasons:
        lines.append(f"quarantined: {told_reasons(quarantined)}")
        lines += [text for reason in reasons for text in reason.lines]
    if verdict.filtered:
        lines.append(f"filtered: {told_reasons(verdict.filtered)}")
    if quarantined:
        lines.append(f"the quarantined records are in {stage.spill.uri}")
        lines.append(f"to see them: {look_command(stage)}")
    return lines


def _offending(
    gates: Sequence[GateResult], examples: Mapping[int, Sequence[Example]]
) -> list[JsonObject]:
    return [
        {"name": gate_name(gate.gate), "examples": [e.to_json() for e in found]}
        for number, gate in enumerate(gates)
        if (found := examples[number])
    ]


def _examples(stage: Stage, result: GateResult) -> Sequence[Example]:
    """Return the examples of a gate; for gates on statistics, look for some."""
    if result.check in _SEARCHED and result.field is not None:
        # A spill file that cannot be read must not hide the gate.
        with suppress(TrainFeedError):
            return _offending_samples(stage, result, result.field)
        return ()
    return result.examples


def _offending_samples(stage: Stage, result: GateResult, field: str) -> list[Example]:
    """Return the first samples that fail a gate, among the first 100,000 of the work files.

    Returns:
        At most 2 examples; none if all samples that fail it come later.
    """
    samples = islice(_samples(stage), _MOST_SAMPLES)
    found = (
        Example(plain(source), offset, f"{field} is {_shown(sample.get(field))}", "")
        for source, offset, sample in samples
        if _breaks(result, sample.get(field))
    )
    return list(islice(found, _MOST_EXAMPLES))


def _samples(stage: Stage) -> Iterator[tuple[str, int, Mapping[str, object]]]:
    codec = TypedCodec(Schema.from_json(stage.plan.fields))
    sources = stage.plan.sources
    for group in range(len(stage.plan.preprocess)):
        with closing(ArrowWithTrailer(stage.spill_file(group))) as spill:
            for table in spill.iter_tables():
                columns = (table[name].to_pylist() for name in ("source", "offset", "record"))
                for source, offset, record in zip(*columns, strict=True):
                    yield sources[source], offset, dict(codec.decode(record))


def _breaks(result: GateResult, value: object) -> bool:
    if result.check == "null_ratio":
        return value is None
    if value is None:
        return False
    numbers = np.asarray(cast("ArrayLike", value), dtype=np.float64)
    low, high = (cast("float | None", result.gate.get(side)) for side in ("min", "max"))
    outside = ~np.isfinite(numbers)
    if low is not None:
        outside |= numbers < low
    if high is not None:
        outside |= numbers > high
    return bool(outside.any())


def _shown(value: object) -> str:
    if value is None:
        return "absent"
    return plain(str(value.tolist() if isinstance(value, np.ndarray | np.generic) else value))


# --- The judgement of ``check``: which failed gates of a plan are waived, and which still stop it

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Judgement:
    """What became of the failed gates of a plan.

    Attributes:
        waivers: The waivers by which the plan passes; empty if it does not, or needs none.
        open: Failed gates that no waiver lets pass.
        notes: Why waivers of the plan do not: their time is over, or they are about other values.
    """

    waivers: tuple[Applied, ...] = ()
    open: tuple[Gate, ...] = ()
    notes: tuple[str, ...] = ()


def judge(folder: DatasetFolder, ref: PlanRef, gates: Sequence[Gate], now: datetime) -> Judgement:
    """Judge the failed gates of a plan.

    Args:
        folder: The data set.
        ref: The plan.
        gates: Its failed gates that block or ask, as a manifest has them.
        now: The aware time at which waivers must hold; without effect once a ``check`` passed.

    Raises:
        FormatError: A waiver is damaged.
        StorageError: The publication root refused or failed.
    """
    if not gates:
        return Judgement()
    applied = read_applied(folder, ref.interval, ref.plan_id, gates)
    waivers = read_waivers(folder, ref.interval, ref.plan_id)
    if applied is not None:
        _require_there(folder, ref, applied, waivers.values())
        return Judgement(_complete(folder, ref, applied, gates))
    found = {number: each for number, each in waivers.items() if each.holds_at(now)}
    covering = [_first(found, gate) for gate in gates]
    left = [gate for gate, number in zip(gates, covering, strict=True) if number is None]
    if left:
        return Judgement((), tuple(left), tuple(_notes(waivers, left, now)))
    used = [
        Applied.of(found[number], [g for g, c in zip(gates, covering, strict=True) if c == number])
        for number in sorted({number for number in covering if number is not None})
    ]
    faults.point("waiver.before_apply")
    decided = apply_waivers(folder, ref.interval, ref.plan_id, gates, used)
    faults.point("waiver.after_apply")
    return Judgement(_complete(folder, ref, decided, gates))


def judged(stage: Stage, verdict: Verdict, counts: Counts) -> Verdict:
    """Return the verdict with the waivers by which failed gates pass.

    Raises:
        GateError: A gate that blocks or asks failed, and no waiver lets it pass. The failed gates
            are recorded for a person who may waive them.
        FormatError: A waiver is damaged.
        StorageError: The publication root refused or failed.
    """
    failed = broken(verdict.gates, "block", "ask")
    gates = [gate.to_json() for gate in failed]
    found = judge(stage.folder, stage.plan.ref(), gates, datetime.now(UTC))
    if not found.open:
        return replace(verdict, waivers=found.waivers)
    _record(stage, gates, [line(gate, counts) for gate in failed])
    left = [gate for gate in failed if gate.to_json() in found.open]
    raise refusal(stage, verdict, counts, left, found.notes)


def _record(stage: Stage, gates: Sequence[Gate], lines: Sequence[str]) -> None:
    plan = stage.plan
    refused = Refused(plan.plan_id, plan.sha256(), tuple(gates), tuple(lines))
    try:
        write_refused(stage.folder, plan.interval["name"], refused)
    except (TrainFeedError, OSError) as error:
        # The failed gate is the answer; without the record it cannot be waived, which is said then.
        logger.warning("the failed gates of plan %s were not recorded: %s", plan.plan_id, error)
    faults.point("check.after_refused")


def _first(waivers: Mapping[int, Waiver], gate: Gate) -> int | None:
    return next((number for number, waiver in waivers.items() if waiver.covers(gate)), None)


def _require_there(
    folder: DatasetFolder, ref: PlanRef, applied: Sequence[Applied], waivers: Iterable[Waiver]
) -> None:
    """Refuse a decision by a waiver that was taken back, or proved to be forged."""
    names = ("who", "account", "why", "until", "at")
    known = {tuple(getattr(waiver, name) for name in names) for waiver in waivers}
    for each in applied:
        if tuple(getattr(each, name) for name in names) not in known:
            raise FormatError(
                f"plan {ref.plan_id} passed by a waiver that is not there any more: {each.told};"
                " nothing was published; to have its gates judged again, move away the files"
                f" {ref.plan_id}.waived-*.json, too",
                path=str(folder.plans(ref.interval)),
            )


def _complete(
    folder: DatasetFolder, ref: PlanRef, applied: tuple[Applied, ...], gates: Sequence[Gate]
) -> tuple[Applied, ...]:
    mine = [gate for waiver in applied for gate in waiver.gates]
    if not all(any(is_same_gate(gate, each) for each in mine) for gate in gates):
        raise FormatError(
            f"the waivers in use of plan {ref.plan_id} do not name all of its failed gates; nothing"
            " was published; move the file away; the next check decides again",
            path=str(folder.plans(ref.interval)),
        )
    return applied


def _notes(waivers: Mapping[int, Waiver], left: Sequence[Gate], now: datetime) -> list[str]:
    """Return why each waiver about a check and field of an open gate does not hold for it."""
    names = {gate_name(gate) for gate in left}
    notes = []
    for waiver in waivers.values():
        about = [gate for gate in waiver.gates if gate_name(gate) in names]
        if not about:
            continue
        if not waiver.holds_at(now):
            notes.append(f"the waiver of {waiver.told}, is over")
        elif not any(waiver.covers(gate) for gate in left):
            seen = ", ".join(f"{gate_name(g)} {shown_number(g['value'])}" for g in about)
            notes.append(f"the waiver of {waiver.told}, is about other values or limits: {seen}")
    return notes


# --- Stage ``check``: prove that nothing was lost or doubled

_BUILD_AGAIN: Final = "build the interval again (in Airflow: clear the run from preprocess on)"


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
    stage.plan.require_fingerprint()
    verdict, counts = _proved(stage)
    verdict = judged(stage, verdict, counts)
    name = f"{stage.plan.dataset}/{stage.plan.interval['name']}"
    warnings = failures(verdict.gates, "warn", counts)
    for warning in warnings:
        logger.warning("check %s: a gate failed, and its severity is warn: %s", name, warning)
    for waiver in verdict.waivers:
        logger.warning("check %s: failed gates pass by a waiver: %s", name, waiver.told)
    data = VERDICTS.dumps(verdict)
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
        if account.cut != cut:
            raise GateError(
                f"{path.uri} is of a plan of another fingerprint, or that cut the inputs in another"
                f" way, and was replaced in mid-build; {kept(stage.spec)}; {_BUILD_AGAIN}"
            )
        yield account


def _ledger(stage: Stage, accounts: list[RecordAccount]) -> Ledger:
    """Return the ledger of preprocessing; checks first that every range was processed once."""
    seen = sorted(index for account in accounts for index in account.ranges)
    if seen != list(range(len(stage.plan.ranges))):
        raise GateError(
            f"expected spill files of {len(stage.plan.ranges)} ranges, as the plan has them, got"
            f" {len(seen)}, {len(set(seen))} of them different; {kept(stage.spec)}; {_BUILD_AGAIN}"
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
                f" place of another file; {kept(stage.spec)}; {_BUILD_AGAIN}"
            )
        if part.entry.samples != len(positions):
            raise GateError(
                f"expected {part.entry.samples} positions of shard {part.entry.name}, got"
                f" {len(positions)}; {kept(stage.spec)}; {_BUILD_AGAIN}"
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
    return f"{what}: {first_few(lines)}; {kept(stage.spec)}; {_BUILD_AGAIN}"


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
        policy={
            label_of(source, stage.plan.inputs[source]): each for source, each in policies.items()
        },
        late=sum(part.late for part in late.values()),
        future=sum(part.future for part in late.values()),
        max_lateness_ms=max((part.max_lateness_ms for part in late.values()), default=0),
        refused=sum(part.late + part.ahead for part in refused),
        unstamped=sum(part.unstamped for part in late.values()),
        ahead=sum(part.ahead for part in late.values()),
    )

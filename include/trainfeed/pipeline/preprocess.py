"""Stage ``preprocess``: source records become samples, quarantined rows, or filtered counts.

The result is a pure function of the task's source ranges. Worker processes call the user function
with records or batches of them. The order key of a sample comes from the position of its record.
Every worker writes sorted runs; a single run becomes the spill file, several are merged into it.
"""

from __future__ import annotations

import uuid
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from typing import BinaryIO

from trainfeed.core import faults
from trainfeed.errors import TrainFeedError
from trainfeed.files.stores import Location
from trainfeed.pipeline.functions.account import (
    PreparedPart,
    RecordAccount,
    fitting_processes,
    require_bounded,
)
from trainfeed.pipeline.functions.jobs import FunctionJob, batch_bytes_of, explain
from trainfeed.pipeline.heap import give_back, return_large_blocks
from trainfeed.pipeline.labels import settle_labels, settle_used
from trainfeed.pipeline.reports import Build, PreprocessReport, PublishedBefore
from trainfeed.pipeline.run_stage import run_stage, unit_of
from trainfeed.pipeline.sorting.merge import Merge, SpillRun
from trainfeed.pipeline.sorting.spill_files import (
    QUARANTINE_SCHEMA,
    SPILL_SCHEMA,
    ArrowWithTrailer,
    TrailerWriter,
    edges_of,
)
from trainfeed.pipeline.stage import Stage
from trainfeed.pipeline.waivers import kept_account
from trainfeed.pipeline.workers.pool import Death, WorkerLimits, rest_workers, run_jobs

# --- Runs the preprocessing function over the ranges of one task, and settles its quarantine


def run_function(stage: Stage, ranges: list[int], target: Location) -> list[PreparedPart]:
    """Divide ranges among worker processes; return their results in order of ranges.

    Args:
        stage: The stage.
        ranges: Indices into the plan's ranges.
        target: Prefix of the files that the workers write.

    Raises:
        PreprocessError: The user function raised, returned what the schema forbids, ended its
            process, or took too long.
        MemoryLimitError: The function took too much memory.
        EngineError: A process that ran the function was killed.
    """
    resources = stage.spec.resources
    shares = _shares(stage, ranges, fitting_processes(stage.spec))
    # Without connections of Kafka: functions of users run in the process that gets this value.
    build = Build(
        stage.spec, replace(stage.env, kafka={}, registries={}, catalogs={}), stage.plan.ref()
    )
    jobs = [
        FunctionJob(
            build=build,
            ranges=share,
            limit_bytes=resources.memory_bytes // len(shares),
            target=f"{target.uri}.{number}",
        )
        for number, share in enumerate(shares)
    ]
    limits = WorkerLimits(resources.time_limit.total_seconds(), resources.worker_memory_bytes)
    try:
        return run_jobs(
            jobs,
            limits,
            lambda _: faults.point("preprocess.after_range"),
            with_keys=stage.env.uses_object_stores,
        )
    except Death as death:
        raise explain(stage, death) from death


def _shares(stage: Stage, ranges: list[int], processes: int) -> list[list[int]]:
    """Cut a list of ranges into at most ``processes`` lists with about equal spans."""
    spans = [stage.plan.ranges[index].end - stage.plan.ranges[index].start for index in ranges]
    total = max(1, sum(spans))
    shares: list[list[int]] = [[] for _ in range(processes)]
    before = 0
    for index, span in zip(ranges, spans, strict=True):
        # The middle of a range, ``before + span / 2``, decides which share gets it: shares keep the
        # order, and no range is cut. Both sides are doubled to stay in whole numbers; ``+ 1`` keeps
        # the result below ``processes``.
        shares[(2 * before + span) * processes // (2 * total + 1)].append(index)
        before += span
    return [share for share in shares if share] or [[]]


def settle_quarantine(stage: Stage, unit: int, parts: list[PreparedPart], folder: Location) -> None:
    """Write the quarantined records of all parts, one after another, to the file of the task.

    Args:
        stage: The stage.
        unit: Number of the task.
        parts: The results of the workers.
        folder: The folder with the files of the parts.

    Raises:
        MemoryLimitError: Together they exceed the limit, which does not depend on the parts.
    """
    kept_bytes = sum(part.kept_bytes for part in parts)
    require_bounded(kept_bytes, stage.spec.resources.task_memory_bytes)
    target = stage.quarantine_file(unit)
    files = [folder / name for part in parts for name in part.quarantine]
    if len(files) == 1 and folder == stage.spill:
        files[0].move(target)
        return
    target.write_atomic(lambda file: _write_quarantine(stage, files, file))


def _write_quarantine(stage: Stage, files: list[Location], file: BinaryIO) -> None:
    writer = TrailerWriter(file, QUARANTINE_SCHEMA, batch_bytes=batch_bytes_of(stage))
    for each in files:
        with closing(ArrowWithTrailer(each)) as rows:
            for table in rows.iter_tables():
                writer.write(table)
    writer.close({})


# --- Stage ``preprocess``: source records become samples, quarantined rows, or filtered counts


def preprocess(build: Build, unit: int) -> PreprocessReport | PublishedBefore:
    """Preprocess the records of one task.

    Args:
        build: The build.
        unit: Index into the plan's ``preprocess``.

    Returns:
        The counts of records by outcome; the verdict is built, published, or adopted: the files
        of an earlier attempt, which gates refused, are used.

    Raises:
        PreprocessError: The user function raised, returned what the schema forbids, ended its
            process, or took too long.
        MemoryLimitError: The function took too much memory, or the quarantine is too large, or the
            labels of uploads are.
        EngineError: A process that ran the function was killed.
    """
    return run_stage("preprocess", build, lambda stage: _preprocess(stage, unit))


def _preprocess(stage: Stage, unit: int) -> PreprocessReport:
    ranges = unit_of(stage.plan.preprocess, unit)
    if known := kept_account(stage, unit):
        return _report(stage, unit, known, runs=0, verdict="adopted")
    stage.spill.make_dir()
    settle_labels(stage)
    # A unique name, because a slower attempt at the same task may still be at work.
    target = stage.spill / f".{unit:05d}.{uuid.uuid4().hex}"
    try:
        parts = run_function(stage, ranges, target)
        faults.point("preprocess.after_runs")
        account = RecordAccount.total([part.account for part in parts])
        settle_quarantine(stage, unit, parts, stage.spill)
        settle_used(stage, unit, [part.used for part in parts if part.used is not None])
        faults.point("preprocess.before_spill")
        _settle_spill(stage, unit, parts, account, target)
        faults.point("preprocess.after_spill")
    finally:
        _remove(stage, target)
    return _report(stage, unit, account, runs=sum(len(part.runs) for part in parts))


def _report(
    stage: Stage, unit: int, account: RecordAccount, *, runs: int, verdict: str = "built"
) -> PreprocessReport:
    ledger = account.ledger
    filtered = [leaf.records for part in ledger.values() for leaf in part.filtered.values()]
    records = sum(part.read.records for part in ledger.values())
    in_place = [part.read.records for source, part in ledger.items() if not stage.lands(source)]
    return PreprocessReport(
        unit=unit,
        verdict=verdict,
        source_reads=0 if verdict == "adopted" else sum(in_place),
        records=records,
        samples=sum(part.valid.samples for part in ledger.values()),
        quarantined=sum(part.quarantined.records for part in ledger.values()),
        filtered=sum(filtered),
        runs=runs,
    )


def _settle_spill(
    stage: Stage, unit: int, parts: list[PreparedPart], account: RecordAccount, scratch: Location
) -> None:
    """Write the samples of all parts to the spill file of the task; several runs are merged."""
    target = stage.spill_file(unit)
    names = [name for part in parts for name in part.runs]
    if len(names) == 1:
        (stage.spill / names[0]).move(target)
        return
    # Idle workers still hold memory of their last job, which the merge here needs.
    rest_workers()
    return_large_blocks()
    with ExitStack() as stack:
        files = []
        for name in names:
            files.append(stack.enter_context(closing(ArrowWithTrailer(stage.spill / name))))
            # Closed at once, reopened by the next read: there may be more files than a process may
            # have open.
            files[-1].close()
        merge = Merge(stage.plan, stage.spec.resources.memory_bytes, scratch)
        target.write_atomic(lambda file: _write_merged(stage, files, file, merge, account))
    give_back()


def _write_merged(
    stage: Stage,
    files: list[ArrowWithTrailer],
    file: BinaryIO,
    merge: Merge,
    account: RecordAccount,
) -> None:
    # First rows of the shards, for each run. With many shards and runs they are large: they are
    # taken out of the trailers, and only the bounds of the splits are kept.
    edges = [run.trailer.pop("rows") for run in files]
    rows = _merged_rows(stage.plan.splits, edges)
    ends = {s: [(rows[s][0], rows[s][-1]) for rows in edges] for s in stage.plan.splits}
    edges.clear()
    writer = TrailerWriter(
        file,
        SPILL_SCHEMA,
        batch_bytes=batch_bytes_of(stage),
        edges=edges_of(rows, stage.plan.convert),
    )
    for split in stage.plan.splits:
        runs = [SpillRun(run, *between) for run, between in zip(files, ends[split], strict=True)]
        for block in merge.blocks(runs):
            writer.write(block)
            faults.point("preprocess.after_merged_block")
    writer.close({"rows": rows, **account.to_json()})


def _merged_rows(splits: list[str], edges: list[dict[str, list[int]]]) -> dict[str, list[int]]:
    """Return for every split the first row of every shard, and the end, when files are merged."""
    rows: dict[str, list[int]] = {}
    first = 0
    for split in splits:
        # The rows before a shard in the merged file are the rows before it in all runs together.
        before = [0] * len(edges[0][split])
        for run in edges:
            before = [n + edge - run[split][0] for n, edge in zip(before, run[split], strict=True)]
        rows[split] = [first + count for count in before]
        first = rows[split][-1]
    return rows


def _remove(stage: Stage, target: Location) -> None:
    """Remove the remaining files of this attempt."""
    with suppress(TrainFeedError):
        for info in stage.spill.list():
            if info.name.startswith(target.name):
                (stage.spill / info.name).delete()

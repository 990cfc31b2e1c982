"""Stage ``preprocess``: source records become samples, quarantined rows, or filtered counts.

The result is a pure function of the task's source ranges. Worker processes call the user function
with records or batches of them. The order key of a sample comes from the position of its record.
Every worker writes sorted runs; a single run becomes the spill file, several are merged into it.
"""

from __future__ import annotations

import uuid
from contextlib import ExitStack, closing, suppress
from typing import BinaryIO

from trainfeed import faults
from trainfeed.errors import TrainFeedError
from trainfeed.pipeline._heap import give_back, return_large_blocks
from trainfeed.pipeline._ref import Build
from trainfeed.pipeline._stage_reports import PreprocessReport, PublishedBefore
from trainfeed.pipeline.functions import (
    PreparedPart,
    RecordAccount,
    batch_bytes_of,
    run_function,
    settle_quarantine,
)
from trainfeed.pipeline.labels import settle_labels, settle_used
from trainfeed.pipeline.sorting import (
    SPILL_SCHEMA,
    ArrowWithTrailer,
    Merge,
    SpillRun,
    TrailerWriter,
    edges_of,
)
from trainfeed.pipeline.stage import Stage, run_stage, unit_of
from trainfeed.pipeline.waivers import kept_account
from trainfeed.pipeline.workers import rest_workers
from trainfeed.storage import Location

__all__ = ["preprocess"]


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
    return PreprocessReport(
        unit=unit,
        verdict=verdict,
        source_reads=0 if stage.spec.source.kind.lands or verdict == "adopted" else records,
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
        (stage.spill / names[0]).replace(target)
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

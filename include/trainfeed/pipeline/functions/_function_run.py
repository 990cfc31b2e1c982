"""Runs the preprocessing function over the ranges of one task, and settles its quarantine.

All engines run functions through this module, so that the limits of time and memory are the same.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import BinaryIO

from trainfeed import faults
from trainfeed.pipeline._ref import Build
from trainfeed.pipeline.functions._account import require_bounded
from trainfeed.pipeline.functions._group import batch_bytes_of
from trainfeed.pipeline.functions._jobs import FunctionJob, explain
from trainfeed.pipeline.functions._prepared_part import PreparedPart
from trainfeed.pipeline.functions._sample_limits import fitting_processes
from trainfeed.pipeline.sorting import QUARANTINE_SCHEMA, ArrowWithTrailer, TrailerWriter
from trainfeed.pipeline.stage import Stage
from trainfeed.pipeline.workers import Death, WorkerLimits, run_jobs
from trainfeed.storage import Location

__all__ = ["run_function", "settle_quarantine"]


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
    build = Build(stage.spec, replace(stage.env, kafka={}), stage.plan.ref())
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
        return run_jobs(jobs, limits, lambda _: faults.point("preprocess.after_range"))
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
        files[0].replace(target)
        return
    target.write_atomic(lambda file: _write_quarantine(stage, files, file))


def _write_quarantine(stage: Stage, files: list[Location], file: BinaryIO) -> None:
    writer = TrailerWriter(file, QUARANTINE_SCHEMA, batch_bytes=batch_bytes_of(stage))
    for each in files:
        with closing(ArrowWithTrailer(each)) as rows:
            for table in rows.iter_tables():
                writer.write(table)
    writer.close({})

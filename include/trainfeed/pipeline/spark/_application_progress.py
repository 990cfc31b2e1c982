"""How far an application is, and what it took, by Spark's own account of its stages."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from trainfeed.pipeline.spark._application_files import ApplicationCounts

if TYPE_CHECKING:
    from pyspark import SparkContext

__all__ = ["begin_build", "counts_of", "progress_in", "telling_progress"]

# The two stages of Spark in which an application builds, in their order.
_STEPS: Final = ("preprocess", "write")
_BUILD: Final = "trainfeed"
_PREFIX: Final = "trainfeed progress: "
# What Spark says again and again, for as long as that holds.
_NO_EXECUTOR: Final = "Initial job has not accepted any resources"
_TELL_S: Final = 1.0


def begin_build(context: SparkContext) -> None:
    """Say that the jobs which this thread starts from now on are those of the build."""
    context.setJobGroup(_BUILD, "preprocess groups, write shards")


@contextmanager
def telling_progress(context: SparkContext) -> Iterator[None]:
    """Print how far the steps of the build are, whenever that has changed."""
    done = threading.Event()
    thread = threading.Thread(target=_tell, args=(context, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def progress_in(line: str) -> str | None:
    """Return the progress that a line of an application's output tells; None if it tells none."""
    if _NO_EXECUTOR in line:
        return "waiting: the cluster has no free executor of the asked cores and memory"
    return line.removeprefix(_PREFIX) if line.startswith(_PREFIX) else None


def counts_of(context: SparkContext, build_s: float, *, spilled_bytes: int) -> ApplicationCounts:
    """Return what the application has taken so far.

    Args:
        context: The context.
        build_s: Seconds from the first task to the last shard.
        spilled_bytes: Bytes that tasks wrote into files of their own, to sort them.
    """
    stages = _attempts(context)
    seconds = {
        step: sum(each.executorRunTime() for each in stages if each.stageId() == stage) / 1000
        for step, stage in zip(_STEPS, _stages(context), strict=False)
    }
    return ApplicationCounts(
        failed_tasks=sum(stage.numFailedTasks() for stage in stages),
        shuffle_bytes=sum(stage.shuffleWriteBytes() for stage in stages),
        spilled_bytes=spilled_bytes + sum(stage.diskBytesSpilled() for stage in stages),
        build_s=round(build_s, 3),
        preprocess_s=round(seconds.get("preprocess", 0.0), 3),
        write_s=round(seconds.get("write", 0.0), 3),
    )


def _tell(context: SparkContext, done: threading.Event) -> None:
    before = ""
    while not done.wait(_TELL_S):
        if (line := _line(context)) not in {"", before}:
            before = line
            print(f"{_PREFIX}{line}", file=sys.stderr, flush=True)  # noqa: T201 - the log


def _line(context: SparkContext) -> str:
    tracker = context.statusTracker()
    stages = zip(_STEPS, map(tracker.getStageInfo, _stages(context)), strict=False)
    return ", ".join(
        f"{step} {stage.numCompletedTasks} of {stage.numTasks} tasks"
        for step, stage in stages
        if stage is not None
    )


def _stages(context: SparkContext) -> list[int]:
    """Return the numbers of the stages of all steps; none before the build has begun."""
    tracker = context.statusTracker()
    jobs = tracker.getJobIdsForGroup(_BUILD)
    # Further jobs write shards without rows.
    job = tracker.getJobInfo(min(jobs)) if jobs else None
    return [] if job is None else sorted(job.stageIds)


def _attempts(context: SparkContext) -> list[Any]:
    """Return Spark's data about every attempt at every stage; PySpark has no call of its own."""
    inside: Any = context
    no_quantiles = inside._gateway.new_array(inside._jvm.double, 0)  # noqa: SLF001
    store = inside._jsc.sc().statusStore()  # noqa: SLF001
    found = store.stageList(None, False, False, no_quantiles, None)
    return [found.apply(index) for index in range(found.size())]

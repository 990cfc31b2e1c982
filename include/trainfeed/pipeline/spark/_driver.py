"""The driver of an application: the program that ``spark-submit`` runs.

Its partitions are those of the plan, and the sort within them is the order of samples. Nothing here
depends on sampling, on the number of executors, or on the order in which tasks end.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trainfeed import faults
from trainfeed.dataset import DatasetFolder
from trainfeed.errors import ConfigError, EngineError, QuotaExceededError, TrainFeedError
from trainfeed.pipeline._ref import PlanRef
from trainfeed.pipeline.plans import Plan, load_plan
from trainfeed.pipeline.spark._application_files import ApplicationFolder, ApplicationJob, Failure
from trainfeed.pipeline.spark._executor_tasks import GROUP_COLUMN, SHARD_COLUMNS, ExecutorTasks
from trainfeed.pipeline.spark._group_rows import ROW_COLUMNS

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["main"]

_ORDER: Final = ("key", "rank", "offset", "ordinal")
_TELL_S: Final = 2.0
_MAX_CHARS: Final = 2000
_PROBES_PER_CORE: Final = 2
# What Spark says → the error of trainfeed.
_WRONG_PYTHON: Final = "PYTHON_VERSION_MISMATCH"
_DISK_FULL: Final = "No space left on device"


def main(arguments: Sequence[str]) -> None:
    """Run the application of a job, and write its result beside the job.

    Args:
        arguments: The URI of the job.
    """
    from pyspark.errors import PySparkException

    (uri,) = arguments
    folder = ApplicationFolder.of_job(uri)
    failure = None
    try:
        _run(uri, folder.job())
    except PySparkException as error:
        failure = folder.failure() or Failure.of(_error_of(error))
    except TrainFeedError as error:
        failure = Failure.of(error)
    faults.point("spark.before_result")
    folder.end(failure)
    if failure is not None:
        sys.exit(1)


def _run(uri: str, job: ApplicationJob) -> None:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    plan = load_plan(_folder_of(job), PlanRef(job.dataset, job.interval, job.plan_id))
    tasks = ExecutorTasks(uri, job)
    try:
        with _progress(spark):
            _probe(spark, tasks)
            _write(spark, tasks, plan)
    finally:
        spark.stop()


def _folder_of(job: ApplicationJob) -> DatasetFolder:
    return DatasetFolder(Path(job.root), job.dataset)


def _probe(spark: SparkSession, tasks: ExecutorTasks) -> None:
    """Run a task at every core: a wrong place or Python is found before any record is read."""
    num_tasks = max(1, spark.sparkContext.defaultParallelism) * _PROBES_PER_CORE
    _numbers(spark, num_tasks).mapInArrow(tasks.probe, f"{GROUP_COLUMN} long").collect()


def _write(spark: SparkSession, tasks: ExecutorTasks, plan: Plan) -> None:
    """Preprocess all groups and write all shards.

    ``repartitionById`` takes the number of the shard for that of the partition. A partition by
    range would sample its bounds, and could cut the rows in another way when a task runs again.
    """
    from pyspark.sql import functions

    num_shards = len(plan.all_shards())
    rows = _numbers(spark, len(plan.preprocess)).mapInArrow(tasks.map_groups, ROW_COLUMNS)
    sorted_rows = rows.repartitionById(num_shards, functions.col("shard"))
    written = (
        sorted_rows.sortWithinPartitions(*_ORDER)
        .mapInArrow(tasks.write_shards, SHARD_COLUMNS)
        .collect()
    )
    missing = sorted(set(range(num_shards)) - {row["shard"] for row in written})
    if missing:
        # Spark calls no task for a partition without rows.
        (
            spark.createDataFrame([(number,) for number in missing], f"{GROUP_COLUMN} long")
            .mapInArrow(tasks.write_empty, SHARD_COLUMNS)
            .collect()
        )


def _numbers(spark: SparkSession, count: int) -> DataFrame:
    """Return the numbers from 0, each in a partition of its own."""
    return spark.range(0, count, 1, count)


@contextmanager
def _progress(spark: SparkSession) -> Iterator[None]:
    """Print how far the stages of the application are."""
    done = threading.Event()

    def tell() -> None:
        before = ""
        while not done.wait(_TELL_S):
            if (line := _line(spark)) not in {"", before}:
                before = line
                print(line, file=sys.stderr, flush=True)  # noqa: T201 - the log of the application

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _line(spark: SparkSession) -> str:
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return ", ".join(
        f"stage {stage.stageId}: {stage.numCompletedTasks} of {stage.numTasks} tasks"
        for stage in stages
        if stage is not None
    )


def _error_of(error: PySparkException) -> TrainFeedError:
    """Return the error for one of Spark: with its first lines, the stacks are in the log."""
    said = str(error)
    print(said, file=sys.stderr, flush=True)  # noqa: T201 - the log of the application
    if _WRONG_PYTHON in said:
        return ConfigError(
            "expected the Python of the driver on all executors, got another version; landing files"
            " are kept, nothing was published; name the same interpreter for all as 'python' of the"
            f" connection of Spark: {said[:_MAX_CHARS]}"
        )
    if _DISK_FULL in said:
        return QuotaExceededError(
            "a disk of an executor is full; nothing was published; make room in spark.local.dir, or"
            f" name larger folders there, then run the build again: {said[:_MAX_CHARS]}"
        )
    return EngineError(
        "the Spark application failed; landing files are kept, nothing was published; run the build"
        f" again, or look into the log of the application: {said[:_MAX_CHARS]}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])

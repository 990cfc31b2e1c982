"""The driver of an application: the program that ``spark-submit`` runs.

Its partitions are the groups and the shards of the plan. Nothing here depends on sampling, on the
number of executors, on the order in which tasks end, or on the order in which rows arrive.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trainfeed.core import faults
from trainfeed.errors import TrainFeedError
from trainfeed.pipeline.plans import Plan, load_plan
from trainfeed.pipeline.reports import PlanRef
from trainfeed.pipeline.spark.application_files import (
    ApplicationCounts,
    ApplicationFolder,
    ApplicationJob,
    Failure,
    begin_build,
    counts_of,
    ending_when_unwanted,
    error_of,
    telling_progress,
)
from trainfeed.pipeline.spark.executor_tasks import GROUP_COLUMN, SHARD_COLUMNS, ExecutorTasks
from trainfeed.pipeline.spark.shuffle import PIECE_COLUMNS
from trainfeed.versions import DatasetFolder

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession


_PROBES_PER_CORE: Final = 2


def main(arguments: Sequence[str]) -> None:
    """Run the application of a job, and write its result beside the job.

    Args:
        arguments: The URI of the job.
    """
    (uri,) = arguments
    folder = ApplicationFolder.of_job(uri)
    result: Failure | ApplicationCounts
    try:
        result = _run(uri, folder.job())
    except TrainFeedError as error:
        result = folder.failure() or Failure.of(error)
    faults.point("spark.before_result")
    folder.end(result)
    if isinstance(result, Failure):
        sys.exit(1)


def _run(uri: str, job: ApplicationJob) -> ApplicationCounts:
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkContext
    from pyspark.errors import PySparkException

    plan = load_plan(_folder_of(job), PlanRef(job.dataset, job.interval, job.plan_id))
    tasks = ExecutorTasks(uri, job)
    disks: list[str] = []
    try:
        context = SparkContext.getOrCreate()
    except (Py4JJavaError, PySparkException) as error:
        raise error_of(error, disks) from error
    try:
        with ending_when_unwanted(ApplicationFolder.of_job(uri)), telling_progress(context):
            spark, found = _session_and_disks(context, tasks)
            disks += found
            tasks = replace(tasks, kept=_kept(spark, tasks))
            begin_build(context)
            started = time.perf_counter()
            spilled = _write(spark, tasks, plan)
        build_s = time.perf_counter() - started
        counts = counts_of(context, build_s, spilled_bytes=spilled)
        return replace(counts, kept_shards=len(tasks.kept))
    except (Py4JJavaError, PySparkException) as error:
        # The former is what PySpark leaves as it comes from Java: a full disk below the shuffle.
        raise error_of(error, disks) from error
    finally:
        context.stop()


def _folder_of(job: ApplicationJob) -> DatasetFolder:
    return DatasetFolder(Path(job.root), job.dataset)


def _session_and_disks(
    context: SparkContext, tasks: ExecutorTasks
) -> tuple[SparkSession, list[str]]:
    """Return a session, and the local folders of all executors; both take seconds, at once."""
    with ThreadPoolExecutor(1) as thread:
        disks = thread.submit(_probe, context, tasks)
        spark = _session()
        return spark, disks.result()


def _session() -> SparkSession:
    """Return the session of this application, with all that its first query has to load."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    _numbers(spark, 1).collect()
    return spark


def _probe(context: SparkContext, tasks: ExecutorTasks) -> list[str]:
    """Run a task at every core: a wrong place or Python is found before any record is read.

    Returns:
        The local folders of all executors, each with the name of its machine.
    """
    num_tasks = max(1, context.defaultParallelism) * _PROBES_PER_CORE
    numbers = context.parallelize(range(num_tasks), num_tasks)
    return sorted(set(numbers.mapPartitions(tasks.probe).collect()))


def _kept(spark: SparkSession, tasks: ExecutorTasks) -> frozenset[int]:
    """Return the numbers of the shards that an earlier attempt has written whole."""
    if not tasks.job.written:
        return frozenset()
    begun = _given(spark, tasks.job.written)
    found = begun.mapInArrow(tasks.find_shards, f"{GROUP_COLUMN} long").collect()
    return frozenset(row[GROUP_COLUMN] for row in found)


def _write(spark: SparkSession, tasks: ExecutorTasks, plan: Plan) -> int:
    """Preprocess all groups and write all shards; return the bytes that sorting took on disk.

    ``repartitionById`` takes the number of the shard for that of the partition. A partition by
    range would sample its bounds, and could cut the rows in another way when a task runs again.
    """
    from pyspark.sql import functions

    num_shards = len(plan.all_shards())
    pieces = _numbers(spark, len(plan.preprocess)).mapInArrow(tasks.map_groups, PIECE_COLUMNS)
    by_shard = pieces.repartitionById(num_shards, functions.col("shard"))
    written = by_shard.mapInArrow(tasks.write_shards, SHARD_COLUMNS).collect()
    missing = sorted(set(range(num_shards)) - {row["shard"] for row in written} - tasks.kept)
    if missing:
        # Spark need not call a task for a partition without rows.
        _given(spark, missing).mapInArrow(tasks.write_empty, SHARD_COLUMNS).collect()
    return sum(row["spilled"] for row in written)


def _given(spark: SparkSession, numbers: Iterable[int]) -> DataFrame:
    """Return the given numbers, spread over the cores."""
    return spark.createDataFrame([(number,) for number in numbers], f"{GROUP_COLUMN} long")


def _numbers(spark: SparkSession, count: int) -> DataFrame:
    """Return the numbers from 0, each in a partition of its own."""
    return spark.range(0, count, 1, count)


if __name__ == "__main__":
    main(sys.argv[1:])

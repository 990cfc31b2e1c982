"""The tasks of an application, as Spark calls them in the Python workers of executors.

Tasks may run twice, at once or after a kill. Every file gets its name when it is whole, and equal
tasks write equal bytes, so it does not matter whose file stays.
"""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from trainfeed import faults
from trainfeed.config import Environment, local_folder_of_executor
from trainfeed.errors import ConfigError, EngineError, NotFoundError, Outcome, TrainFeedError
from trainfeed.pipeline._ref import Build, PlanRef
from trainfeed.pipeline.convert import write_shard
from trainfeed.pipeline.functions import room_for_samples
from trainfeed.pipeline.sorting import PieceSorter
from trainfeed.pipeline.spark._application_files import ApplicationFolder, ApplicationJob, Failure
from trainfeed.pipeline.spark._function_packages import FunctionPackages
from trainfeed.pipeline.spark._group_pieces import pieces_of_group
from trainfeed.pipeline.spark._sample_pieces import decoded_pieces
from trainfeed.pipeline.spark._shipment import (
    FOLDER_ARCHIVE,
    forget_importers,
    require_package,
    unpacked,
)
from trainfeed.pipeline.spark._staged_shards import is_whole
from trainfeed.pipeline.stage import Stage
from trainfeed.specification import load_spec
from trainfeed.storage import Location, posix

__all__ = ["GROUP_COLUMN", "SHARD_COLUMNS", "ExecutorTasks"]

GROUP_COLUMN: Final = "id"
SHARD_COLUMNS: Final = "shard int, samples long, spilled long"

_SHARDS: Final = pa.schema({"shard": pa.int32(), "samples": pa.int64(), "spilled": pa.int64()})

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class ExecutorTasks:
    """The tasks of one application; Spark sends it to its executors.

    Attributes:
        job_uri: The job of the application.
        job: The same, read.
        kept: Numbers of the shards that are there already, and are not written.
    """

    job_uri: str
    job: ApplicationJob
    kept: frozenset[int] = frozenset()

    def probe(self, _: Iterable[int]) -> Iterator[str]:
        """Check that this executor has the code, and sees the places of the build.

        Yields:
            The local folder of the executor, with the name of its machine.
        """
        place = f"{socket.gethostname()}:{local_folder_of_executor()}"
        with self._task() as stage:
            self._require_places(stage)
            yield place

    def find_shards(self, batches: Batches) -> Batches:
        """Yield those of the given numbers whose shards an earlier attempt has written whole."""
        with self._task() as stage:
            shards = stage.plan.all_shards()
            for batch in batches:
                numbers = batch.column(GROUP_COLUMN).to_pylist()
                found = [number for number in numbers if is_whole(stage, shards[number])]
                yield pa.RecordBatch.from_arrays([pa.array(found, pa.int64())], [GROUP_COLUMN])

    def map_groups(self, batches: Batches) -> Batches:
        """Run the function over the records of groups; yield their samples as pieces."""
        with self._task() as stage, _scratch() as scratch:
            for batch in batches:
                for group in batch.column(GROUP_COLUMN).to_pylist():
                    yield from pieces_of_group(stage, group, scratch, self.kept)
                    faults.point("spark.after_group")

    def write_shards(self, batches: Batches) -> Batches:
        """Write the shard of this partition from its rows, unless it is there already."""
        from pyspark import TaskContext

        number = TaskContext.get().partitionId()
        if number in self.kept:
            # Spark calls a task for a partition without rows, too.
            return
        with self._task() as stage, _scratch() as scratch:
            faults.point("spark.before_shard")
            yield _written(stage, number, batches, scratch)

    def write_empty(self, batches: Batches) -> Batches:
        """Write the shards of the given numbers, which no row has."""
        with self._task() as stage, _scratch() as scratch:
            for batch in batches:
                for number in batch.column(GROUP_COLUMN).to_pylist():
                    yield _written(stage, number, iter(()), scratch)

    @contextmanager
    def _task(self) -> Iterator[Stage]:
        """Yield the stage; an error that another attempt would meet again ends the application."""
        folder = ApplicationFolder.of_job(self.job_uri)
        if (failure := _seen(folder)) is not None:
            raise EngineError(f"not begun, another task has failed before: {failure.message}")
        try:
            stage = self._stage()
            with posix.map_errors(stage.folder.path):
                yield stage
        except TrainFeedError as error:
            if error.outcome is Outcome.FAIL:
                folder.fail(Failure.of(error))
            raise
        finally:
            forget_importers()

    def _stage(self) -> Stage:
        from pyspark import SparkFiles

        job = self.job
        require_package(job.package)
        place = local_folder_of_executor()
        FunctionPackages(job.imported, job.required).require(Path(place) if place else None)
        folder = unpacked(Path(SparkFiles.get(FOLDER_ARCHIVE)), job.folder, Path(place or "."))
        spec = load_spec(folder)
        # A task is one process: Spark decides how many run at once.
        alone = spec.resources.model_copy(update={"processes": 1})
        env = Environment(
            root=job.root,
            landing=job.landing,
            work=job.work,
            kafka={},
            datasets=folder.parent,
            logs=job.logs,
        )
        build = Build(
            spec.model_copy(update={"resources": alone}),
            env,
            PlanRef(job.dataset, job.interval, job.plan_id),
        )
        try:
            stage = Stage.open(build)
        except NotFoundError as error:
            raise _unseen("publication root", job.root) from error
        stage.check_code()
        return stage

    def _require_places(self, stage: Stage) -> None:
        # The submitting process has made the staging folder, and the job in the work folder.
        if not stage.staged.is_dir():
            raise _unseen("publication root", self.job.root)
        if not Location.parse(self.job_uri).exists():
            raise _unseen("work folder", self.job.work)
        if stage.spec.source.kind.lands and stage.plan.ranges and not stage.landing.exists():
            raise _unseen("landing area", self.job.landing)


def _seen(folder: ApplicationFolder) -> Failure | None:
    try:
        return folder.failure()
    except NotFoundError:
        return None


def _unseen(what: str, place: str) -> ConfigError:
    return ConfigError(
        f"expected the executor on {socket.gethostname()} to see the {what} {place} with the files"
        " of this build, found other files or none; nothing was published; mount the same folder"
        " at the same path on all machines of the cluster, or name a place of HDFS"
    )


@contextmanager
def _scratch() -> Iterator[Location]:
    """Yield a folder of the executor's disk for one task."""
    place = local_folder_of_executor()
    with tempfile.TemporaryDirectory(dir=place, prefix="trainfeed-") as folder:
        yield Location.parse(folder)


def _written(stage: Stage, number: int, batches: Batches, scratch: Location) -> pa.RecordBatch:
    sorter = PieceSorter(stage.plan, room_for_samples(stage.spec), scratch / "shard")
    blocks = sorter.blocks(decoded_pieces(number, batches))
    entry = write_shard(stage, stage.plan.all_shards()[number], blocks)
    found = {"shard": number, "samples": entry.samples, "spilled": sorter.spilled_bytes}
    return pa.RecordBatch.from_pylist([found], schema=_SHARDS)

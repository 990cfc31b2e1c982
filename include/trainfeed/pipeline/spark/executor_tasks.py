"""The tasks of an application, as Spark calls them in the Python workers of executors."""

from __future__ import annotations

import socket
import tempfile
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trainfeed.core import faults
from trainfeed.core.config import Environment, local_folder_of_executor
from trainfeed.errors import ConfigError, EngineError, NotFoundError, Outcome, TrainFeedError
from trainfeed.files.stores import Location, posix
from trainfeed.pipeline.convert import write_shard
from trainfeed.pipeline.functions.account import RecordAccount, room_for_samples
from trainfeed.pipeline.labels import settle_labels, settle_used
from trainfeed.pipeline.plans import Plan
from trainfeed.pipeline.preprocess import run_function, settle_quarantine
from trainfeed.pipeline.reports import Build, PlanRef
from trainfeed.pipeline.run_stage import unit_of
from trainfeed.pipeline.sorting.merge import PieceSorter
from trainfeed.pipeline.sorting.spill_files import SPILL_SCHEMA, ArrowWithTrailer, TrailerWriter
from trainfeed.pipeline.spark.application_files import ApplicationFolder, ApplicationJob, Failure
from trainfeed.pipeline.spark.shipment import (
    FOLDER_ARCHIVE,
    FunctionPackages,
    forget_importers,
    require_package,
    unpacked,
)
from trainfeed.pipeline.spark.shuffle import decoded_pieces, encoded_pieces, is_whole
from trainfeed.pipeline.stage import Stage
from trainfeed.specification import load_spec

# --- The work of one group of the plan: its account and quarantine as files, its samples as pieces


def pieces_of_group(
    stage: Stage, group: int, scratch: Location, kept: Collection[int] = ()
) -> Iterator[pa.RecordBatch]:
    """Do the work of a group.

    Args:
        stage: The stage.
        group: Index into the plan's ``preprocess``.
        scratch: Folder of this task.
        kept: Numbers of shards that are there already; their samples are left out.

    Yields:
        The samples, as rows for the shuffle with the number of the shard that gets them.
    """
    ranges = unit_of(stage.plan.preprocess, group)
    settle_labels(stage)
    faults.point("spark.before_function")
    parts = run_function(stage, ranges, scratch / uuid.uuid4().hex)
    account = RecordAccount.total([part.account for part in parts])
    faults.point("spark.after_function")
    settle_quarantine(stage, group, parts, scratch)
    settle_used(stage, group, [part.used for part in parts if part.used is not None])
    _settle_account(stage, group, account)
    faults.point("spark.before_rows")
    for name in (name for part in parts for name in part.runs):
        with closing(ArrowWithTrailer(scratch / name)) as run:
            yield from _pieces(stage.plan, run, kept)
        (scratch / name).delete()


def _settle_account(stage: Stage, group: int, account: RecordAccount) -> None:
    """Write the spill file of a task without samples: the account, which ``check`` reads."""
    stage.spill_file(group).write_atomic(
        lambda file: TrailerWriter(file, SPILL_SCHEMA).close(account.to_json())
    )


def _pieces(plan: Plan, run: ArrowWithTrailer, kept: Collection[int]) -> Iterator[pa.RecordBatch]:
    """Yield a batch of pieces for each batch of a run: a piece has the rows of one shard."""
    starts, shards = _shard_starts(plan, run)
    first = 0
    for table in run.iter_tables():
        for batch in table.to_batches():
            end = first + len(batch)
            inner = starts[(starts > first) & (starts < end)]
            edges = np.unique(np.concatenate([[first], inner, [end]]))
            numbers = shards[np.searchsorted(starts, edges[:-1], "right") - 1]
            pieces = [
                (int(number), batch.slice(start - first, length))
                for number, start, length in zip(numbers, edges, np.diff(edges), strict=False)
                if number not in kept
            ]
            yield encoded_pieces(pieces)
            first = end


def _shard_starts(plan: Plan, run: ArrowWithTrailer) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the first rows of all shards in a run, ascending, and the numbers of these shards."""
    numbers = {(shard.split, shard.index): n for n, shard in enumerate(plan.all_shards())}
    rows: dict[str, Sequence[int]] = run.trailer["rows"]
    starts = [
        (start, numbers[split, index])
        for split in plan.splits
        for index, start in enumerate(rows[split][:-1])
    ]
    # A row is of the last shard that begins at or before it: those without rows begin there, too.
    table = np.array(starts, dtype=np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1].astype(np.int32)


# --- The tasks of an application, as Spark calls them in the Python workers of executors

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
        if (failure := folder.failure()) is not None:
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


def _unseen(what: str, place: str) -> ConfigError:
    return ConfigError(
        f"expected the executor on {socket.gethostname()} to see the {what} {place} with the files"
        " of this build, found other files or none; nothing was published; mount the same folder"
        " at the same path on all machines of the cluster, or name a place of HDFS"
    )


@contextmanager
def _scratch() -> Iterator[Location]:
    """Yield a folder of the executor's disk for one task."""
    place = local_folder_of_executor() or tempfile.gettempdir()
    with posix.map_errors(place):
        made = tempfile.TemporaryDirectory(dir=place, prefix="trainfeed-")
    with made as folder:
        yield Location.parse(folder)


def _written(stage: Stage, number: int, batches: Batches, scratch: Location) -> pa.RecordBatch:
    sorter = PieceSorter(stage.plan, room_for_samples(stage.spec), scratch / "shard")
    blocks = sorter.blocks(decoded_pieces(number, batches))
    entry = write_shard(stage, stage.plan.all_shards()[number], blocks)
    found = {"shard": number, "samples": entry.samples, "spilled": sorter.spilled_bytes}
    return pa.RecordBatch.from_pylist([found], schema=_SHARDS)

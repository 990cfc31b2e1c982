"""Runs all stages of one interval from this process, without Airflow, several tasks at once.

Nothing heavy is imported with this module: a build starts its workers first, and they import what
their jobs need while this process imports the stages.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from trainfeed.core.canonical_json import JsonFields
from trainfeed.core.config import Environment, KafkaSettings
from trainfeed.core.imports import without_collection
from trainfeed.core.intervals import Interval
from trainfeed.errors import EngineError
from trainfeed.pipeline.reports import (
    MAPPED_STAGES,
    Build,
    BuildRequest,
    JsonObject,
    PlanReport,
    PublishReport,
    SkipReport,
    StageReport,
)
from trainfeed.pipeline.workers.pool import (
    Death,
    WorkerLimits,
    rest_workers,
    run_jobs,
    start_workers,
    stop_workers,
)
from trainfeed.specification import DatasetSpec, ResourceSpec, registries_of
from trainfeed.versions import DatasetFolder, TrainingMarks, Untrained
from trainfeed.versions.layout import parse_generation

if TYPE_CHECKING:
    from trainfeed.pipeline.spark.cluster import SparkCluster

# --- Runs several tasks of a stage at once from one process, as a scheduler does on many machines

_LEAST_MEMORY_BYTES: Final = 1 << 20
_AGAIN_S: Final = 0.1
_Report = TypeVar("_Report")
_NO_LIMITS: Final = WorkerLimits(math.inf, sys.maxsize)


class _Share(ResourceSpec):
    """The resources of a task that runs beside others.

    Attributes:
        whole_bytes: ``memory_bytes`` of the data set: the memory of a task that runs alone.
    """

    whole_bytes: int

    @property
    def task_memory_bytes(self) -> int:
        """The limit for broken records: success must not depend on how many tasks run at once."""
        return self.whole_bytes


def at_once(spec: DatasetSpec, num_units: int) -> int:
    """Return how many tasks of a stage fit into the memory, each with room for one sample."""
    from trainfeed.pipeline.functions.account import fitting_processes

    return max(1, min(spec.resources.processes, num_units, fitting_processes(spec)))


def share_of(spec: DatasetSpec, num_tasks: int) -> DatasetSpec:
    """Return ``spec`` with the resources of one of ``num_tasks`` tasks that run at once."""
    resources = spec.resources
    if num_tasks == 1:
        return spec
    update = {
        "processes": resources.processes // num_tasks,
        "memory_bytes": max(_LEAST_MEMORY_BYTES, resources.memory_bytes // num_tasks),
        "whole_bytes": resources.memory_bytes,
    }
    share = _Share.model_construct(**{**dict(resources), **update})
    return spec.model_copy(update={"resources": share})


def in_worker(
    stage: Callable[[Build, int], StageReport],
) -> Callable[[Build, int], StageReport]:
    """Return ``stage`` wrapped to run in a worker process: threads would wait for the interpreter.

    Args:
        stage: A stage that calls no function of the user and reads no cluster; it can be pickled.
    """
    return partial(_run_in_worker, stage)


def _run_in_worker(
    stage: Callable[[Build, int], StageReport],
    build: Build,
    unit: int,
) -> StageReport:
    from trainfeed.pipeline.functions.jobs import StageJob, memory_ran_out
    from trainfeed.pipeline.stage import kept

    spec, env = build.spec, build.env
    recorded = {name: KafkaSettings(recorded=kafka.recorded) for name, kafka in env.kafka.items()}
    job = StageJob(
        stage, replace(build, env=replace(env, kafka=recorded, registries={}, catalogs={})), unit
    )
    try:
        (report,) = run_jobs([job], _NO_LIMITS, str, with_keys=env.uses_object_stores)
    except Death as death:
        how, remedy = memory_ran_out(spec, death) or (
            f"ended by {death.cause} {death.detail}",
            "run again",
        )
        raise EngineError(
            f"the process of task {unit} of stage {stage.__name__} of data set {spec.name!r} {how};"
            f" {kept(spec)}; {remedy}"
        ) from death
    return report


def run_units(
    run: Callable[[int], _Report], units: Sequence[int], num_tasks: int
) -> Iterator[_Report]:
    """Run every task of a stage, up to ``num_tasks`` at a time.

    ``run`` must leave the work to worker processes: the threads here share one interpreter.

    Args:
        run: Runs the task of a number.
        units: Numbers of the tasks.
        num_tasks: How many tasks run at once.

    Yields:
        The results in the order of ``units``. After the first error no further task starts.
    """
    if num_tasks == 1:
        yield from map(run, units)
        return
    pool = ThreadPoolExecutor(num_tasks, thread_name_prefix="trainfeed-task")
    tasks: list[Future[_Report]] = []
    try:
        tasks.extend(pool.submit(run, unit) for unit in units)
        # In the order in which they end: the first task may hang while a later one has failed.
        for task in as_completed(tasks):
            task.result()
        yield from (task.result() for task in tasks)
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        _end(tasks)
        raise
    finally:
        pool.shutdown()
        rest_workers()


def _end(tasks: Sequence[Future[_Report]]) -> None:
    """End the workers of tasks: a task may wait for a function that never returns."""
    stop_workers(busy=True)
    # Repeatedly: a task that had no worker at the first call may have got one since.
    while at_work := [task for task in tasks if not task.done()]:
        wait(at_work, _AGAIN_S)
        stop_workers(busy=True)


# --- Runs all stages of one interval from this process, without Airflow, as the command line does


@dataclass(frozen=True)
class BuildReport(JsonFields, without=("published",), optional=("note",)):
    """An interval is published.

    Attributes:
        published: The report of stage ``publish``.
        verdict: built, published (by another run meanwhile), identical, or kept.
        source_reads: Number of records that all stages read from the source itself.
        seconds: Stage → duration.
        note: The note of the plan, or None.
    """

    published: PublishReport
    verdict: str
    source_reads: int
    seconds: Mapping[str, float]
    note: str | None

    def to_json(self) -> JsonObject:
        """Return the JSON that commands print: that of stage ``publish``, and the other values."""
        return {**self.published.to_json(), **super().to_json()}


@dataclass(frozen=True)
class SkippedBuild:
    """An interval is skipped; ``planned`` has the reason."""

    planned: SkipReport

    def to_json(self) -> JsonObject:
        """Return the JSON that commands print."""
        return {
            "dataset": self.planned.dataset,
            "interval": self.planned.interval,
            "verdict": "skipped",
            "note": self.planned.note,
            "source_reads": 0,
            "seconds": {"plan": self.planned.seconds},
        }


def build(
    spec: DatasetSpec,
    interval: Interval,
    env: Environment,
    request: BuildRequest | None = None,
    *,
    on_stage: Callable[[str], object] = str,
) -> BuildReport | SkippedBuild:
    """Build and publish one interval.

    Args:
        spec: The data set.
        interval: A tick of its schedule.
        env: Folders and connections.
        request: Options besides the interval.
        on_stage: Called with the name of every stage before the stage starts, and with how far a
            Spark application is: ``spark: preprocess 3 of 7 tasks``.

    Returns:
        The published version with durations; for a skipped interval, the reason.

    Raises:
        TrainFeedError: The error of a stage; another call continues where this one stopped.
    """
    request = request or BuildRequest()
    spec = spec.for_interval(interval.start)
    if spec.preprocess.engine == "spark":
        _cluster_of(spec, env)  # wrong settings are told before the source is read
    on_stage("plan")
    if not DatasetFolder(Path(env.root), spec.name).interval(interval.name).exists():
        # It will be built: workers start while this process imports and plans.
        _start_workers(spec, env)
    with without_collection():
        from trainfeed.pipeline.plan import plan

    planned = plan(
        spec,
        interval,
        env,
        rebuild=request.rebuild,
        allow_gap=request.allow_gap,
        outdated=request.outdated,
        replay=request.replay,
    )
    if isinstance(planned, SkipReport):
        return SkippedBuild(planned)
    begun = Build(spec, env, planned.ref)
    _mark_training(begun, planned.generation, request.untrained)
    seconds = {"plan": planned.seconds}
    if planned.is_published:
        # The other stages have nothing to do, and are not even imported.
        own = ("ingest", "spark") if spec.preprocess.engine == "spark" else MAPPED_STAGES
        seconds |= dict.fromkeys([*own, "check"], 0.0)
        published, reads = _publish(begun, on_stage, seconds), 0
    else:
        published, reads = _run(begun, planned, on_stage, seconds)
    verdict = planned.verdict if planned.is_published else published.verdict
    return BuildReport(published, verdict, reads, seconds, planned.note)


def _start_workers(spec: DatasetSpec, env: Environment) -> None:
    """Start the workers of a build; those of the engine spark are in its executors."""
    count = 0 if spec.preprocess.engine == "spark" else spec.resources.processes
    start_workers(count, with_keys=env.uses_object_stores)


def _mark_training(build: Build, generation: str, why_none: str | None) -> None:
    """Write down, before the version is there, whether a training of it is wanted."""
    if build.spec.train is None:
        return
    marks = TrainingMarks(DatasetFolder(Path(build.env.root), build.ref.dataset))
    version = Untrained(build.ref.interval, parse_generation(generation))
    if why_none is None:
        marks.accept(version)
    else:
        marks.decline(version, why_none, "trainfeed build")


def _run(
    build: Build,
    planned: PlanReport,
    on_stage: Callable[[str], object],
    seconds: dict[str, float],
) -> tuple[PublishReport, int]:
    """Run all tasks; return the report of ``publish``, and the number of source reads."""
    _start_workers(build.spec, build.env)
    with without_collection():
        from trainfeed.pipeline.build_attempts import build_attempt

    reads = 0
    with build_attempt(build, "build"):
        for stage, reports in _stages(build, planned, on_stage):
            with _timed(stage, on_stage, seconds):
                reads += sum(report.source_reads for report in reports)
        return _publish(build, on_stage, seconds), reads


def _publish(
    build: Build, on_stage: Callable[[str], object], seconds: dict[str, float]
) -> PublishReport:
    with without_collection():
        from trainfeed.pipeline.publish import publish

    with _timed("publish", on_stage, seconds):
        return publish(build)


@contextmanager
def _timed(
    stage: str, on_stage: Callable[[str], object], seconds: dict[str, float]
) -> Iterator[None]:
    on_stage(stage)
    started = time.perf_counter()
    yield
    seconds[stage] = round(time.perf_counter() - started, 3)


def _stages(
    build: Build, planned: PlanReport, on_stage: Callable[[str], object]
) -> Iterator[tuple[str, Iterator[StageReport]]]:
    """Yield every stage between ``plan`` and ``publish``, and an iterator that runs its tasks."""
    with without_collection():
        from trainfeed.pipeline.check import check
        from trainfeed.pipeline.convert import convert
        from trainfeed.pipeline.ingest import ingest
        from trainfeed.pipeline.preprocess import preprocess

    on_spark = build.spec.preprocess.engine == "spark"
    mapped: tuple[Callable[[Build, int], StageReport], ...] = (ingest, preprocess, convert)
    for name, stage in zip(MAPPED_STAGES, mapped, strict=True):
        # ``preprocess`` stays in this process, because it runs its functions in workers by itself.
        # ``ingest`` from a cluster stays, because the credentials must not reach the workers:
        # functions of users run in the same workers later.
        stays = stage is preprocess or (stage is ingest and not _is_recorded(build.spec, build.env))
        if stage is ingest or not on_spark:
            yield name, _mapped(build, stage, range(planned.tasks[name]), stays=stays)
    if on_spark:
        yield "spark", (_on_spark(each, on_stage) for each in [build])
    yield "check", (check(each) for each in [build])


def _mapped(
    build: Build, stage: Callable[[Build, int], StageReport], units: range, *, stays: bool
) -> Iterator[StageReport]:
    """Run the tasks of a stage, in this process if it ``stays`` there."""
    num_tasks = at_once(build.spec, len(units))
    run_in = stage if stays or num_tasks == 1 else in_worker(stage)
    run = partial(run_in, replace(build, spec=share_of(build.spec, num_tasks)))
    return run_units(run, units, num_tasks)


def _on_spark(build: Build, on_stage: Callable[[str], object]) -> StageReport:
    from trainfeed.pipeline.spark.application import SparkApplication

    cluster = _cluster_of(build.spec, build.env)
    return SparkApplication(build, cluster, lambda far: on_stage(f"spark: {far}")).run()


def _cluster_of(spec: DatasetSpec, env: Environment) -> SparkCluster:
    from trainfeed.pipeline.spark.cluster import SparkCluster

    return SparkCluster.of(env.spark, spec.preprocess.connection)


def _is_recorded(spec: DatasetSpec, env: Environment) -> bool:
    """Return whether every topic is a recorded one, so that no cluster and no registry is read."""
    if registries_of(spec.source.kind):
        return False
    settings = [env.kafka.get(connection) for connection in spec.source.kind.clusters]
    return all(each is not None and each.recorded is not None for each in settings)

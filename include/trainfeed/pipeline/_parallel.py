"""Runs several tasks of a stage at once from one process, as a scheduler does on many machines."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from trainfeed.config import KafkaSettings
from trainfeed.errors import EngineError
from trainfeed.pipeline._ref import Build
from trainfeed.pipeline._stage_reports import StageReport
from trainfeed.pipeline.functions import StageJob, fitting_processes, memory_ran_out
from trainfeed.pipeline.stage import kept
from trainfeed.pipeline.workers import Death, WorkerLimits, rest_workers, run_jobs, stop_workers
from trainfeed.specification import DatasetSpec, ResourceSpec

__all__ = ["at_once", "in_worker", "run_units", "share_of"]

_LEAST_MEMORY_BYTES: Final = 1 << 20
_AGAIN_S: Final = 0.1
_Report = TypeVar("_Report")
_NO_LIMITS: Final = WorkerLimits(math.inf, sys.maxsize)


class _Share(ResourceSpec):
    """The resources of a task that runs beside others.

    Attributes:
        whole_bytes: ``memory_bytes`` of the data set, which a task has that runs alone.
    """

    whole_bytes: int

    @property
    def task_memory_bytes(self) -> int:
        """The limit for broken records: success must not depend on how many tasks run at once."""
        return self.whole_bytes


def at_once(spec: DatasetSpec, num_units: int) -> int:
    """Return how many tasks of a stage fit into the memory, each with room for one sample."""
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
    spec, env = build.spec, build.env
    recorded = {name: KafkaSettings(recorded=kafka.recorded) for name, kafka in env.kafka.items()}
    job = StageJob(stage, replace(build, env=replace(env, kafka=recorded)), unit)
    try:
        (report,) = run_jobs([job], _NO_LIMITS, str)
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

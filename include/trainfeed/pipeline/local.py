"""All stages of one interval in this process: the command line's way to build, without Airflow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from trainfeed.config import Environment
from trainfeed.pipeline._parallel import at_once, in_worker, run_units, share_of
from trainfeed.pipeline._ref import PlanRef
from trainfeed.pipeline.build_attempts import build_attempt
from trainfeed.pipeline.check import check
from trainfeed.pipeline.convert import convert
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.preprocess import preprocess
from trainfeed.pipeline.publish import publish
from trainfeed.pipeline.workers import start_workers
from trainfeed.specification import DatasetSpec
from trainfeed.window import Interval

__all__ = ["BuildRequest", "build"]


@dataclass(frozen=True)
class BuildRequest:
    """What may be asked of a build besides its interval.

    Attributes:
        rebuild: Why a published interval is built again.
        allow_gap: Why records that retention deleted may be missing.
    """

    rebuild: str | None = None
    allow_gap: str | None = None


def build(
    spec: DatasetSpec,
    interval: Interval,
    env: Environment,
    request: BuildRequest | None = None,
    *,
    on_stage: Callable[[str], object] = str,
) -> dict[str, Any]:
    """Build and publish one interval.

    Args:
        spec: The data set.
        interval: A tick of its schedule.
        env: Where things are.
        request: What else was asked.
        on_stage: Called with the name of every stage before it starts.

    Returns:
        What ``publish.summary`` says of the version, ``verdict`` (built, published or identical),
        ``source_reads`` and ``seconds`` per stage; ``note``, when ``plan`` gave one. Of an interval
        that is left out ``dataset``, ``interval``, ``verdict`` (skipped), ``note``,
        ``source_reads`` and ``seconds``.

    Raises:
        TrainFeedError: Whatever a stage raised; running again goes on where it stopped.
    """
    request = request or BuildRequest()
    on_stage("plan")
    # They start while this process plans.
    start_workers(spec.resources.processes)
    planned = plan(spec, interval, env, rebuild=request.rebuild, allow_gap=request.allow_gap)
    seconds = {"plan": planned["seconds"]}
    if planned["verdict"] == "skipped":
        told = {key: planned[key] for key in ("dataset", "interval", "verdict", "note")}
        return {**told, "source_reads": 0, "seconds": seconds}
    is_identical = planned["verdict"] == "identical"
    ref = PlanRef.from_json(planned)
    with nullcontext() if is_identical else build_attempt(spec, env, ref, "build"):
        report, reads = _run(_stages(spec, env, planned), on_stage, seconds)
    verdict = "identical" if is_identical else report["verdict"]
    notes = {"note": planned["note"]} if "note" in planned else {}
    return {**report, "verdict": verdict, "source_reads": reads, "seconds": seconds, **notes}


def _run(
    stages: Iterator[tuple[str, Iterator[dict[str, Any]]]],
    on_stage: Callable[[str], object],
    seconds: dict[str, float],
) -> tuple[dict[str, Any], int]:
    """Run the tasks of all stages; return the last report, and how often a source was read."""
    reads, report = 0, dict[str, Any]()
    for stage, run in stages:
        on_stage(stage)
        started = time.perf_counter()
        for report in run:
            reads += report["source_reads"]
        seconds[stage] = round(time.perf_counter() - started, 3)
    return report, reads


def _stages(
    spec: DatasetSpec, env: Environment, planned: dict[str, Any]
) -> Iterator[tuple[str, Iterator[dict[str, Any]]]]:
    """Yield every stage after ``plan``, and an iterator that runs its tasks."""
    ref = PlanRef.from_json(planned)
    for stage in (ingest, preprocess, convert):
        units = [item["unit"] for item in planned[stage.__name__]]
        # Functions run in workers anyway; what is around them is little. Credentials of a cluster
        # stay in this process: functions run in the same workers later.
        stays = stage is preprocess or (stage is ingest and not _is_recorded(spec, env))
        num_tasks = at_once(spec, len(units))
        run_in = stage if stays or num_tasks == 1 else in_worker(stage)
        run = partial(run_in, share_of(spec, num_tasks), env, ref)
        yield stage.__name__, run_units(run, units, num_tasks)
    for last in (check, publish):
        yield last.__name__, (run(spec, env, ref) for run in [last])


def _is_recorded(spec: DatasetSpec, env: Environment) -> bool:
    """Return whether no cluster is read."""
    settings = [env.kafka.get(connection) for connection in spec.source.kind.clusters]
    return all(each is not None and each.recorded is not None for each in settings)

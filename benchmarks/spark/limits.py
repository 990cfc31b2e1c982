"""What the limits of user code cost: the function in its limited worker, or in this process.

``python -m benchmarks.spark.limits FOLDER/x1 batch|record [--rounds 3]`` runs the groups of one
plan, in turns, as a Python worker of Spark does, and without the worker process below it.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.spark.ours import planned_build
from trainfeed.files.stores import Location
from trainfeed.pipeline import Build
from trainfeed.pipeline.functions.jobs import FunctionJob
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.preprocess import run_function
from trainfeed.pipeline.stage import Stage
from trainfeed.pipeline.workers.pool import stop_workers
from trainfeed.pipeline.workers.protocol import PROGRESS_BYTES, Desk, WorkerPlace


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("place", type=Path)
    parser.add_argument("form", choices=("batch", "record"))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        build, planned = planned_build(options.place, options.form, Path(folder))
        for unit in range(planned.tasks["ingest"]):
            ingest(build, unit)
        # As in a task of Spark, which is one process.
        alone = build.spec.resources.model_copy(update={"processes": 1})
        build = replace(build, spec=build.spec.model_copy(update={"resources": alone}))
        stage = Stage.open(build)
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in _WAYS}
        for _ in range(options.rounds):
            for name, way in _WAYS.items():
                found[name].append(_timed(build, stage, way, Path(tempfile.mkdtemp(dir=folder))))
        groups = len(stage.plan.preprocess)
    print(f"| {groups} groups | wall s | CPU s |\n| --- | --- | --- |")
    for name, runs in found.items():
        wall_s, cpu_s = (median(values) for values in zip(*runs, strict=True))
        print(f"| {name} | {wall_s:.2f} | {cpu_s:.2f} |")


def _timed(build: Build, stage: Stage, way: _Way, runs: Path) -> tuple[float, float]:
    """Return wall and processor seconds of all groups; the first one starts the worker."""
    before, started = _cpu_s(), time.perf_counter()
    for group, ranges in enumerate(stage.plan.preprocess):
        way(build, stage, list(ranges), Location.parse(str(runs)) / str(group))
    stop_workers()
    return time.perf_counter() - started, _cpu_s() - before


def _limited(_: Build, stage: Stage, ranges: list[int], target: Location) -> None:
    run_function(stage, ranges, target)


def _in_this_process(build: Build, stage: Stage, ranges: list[int], target: Location) -> None:
    with tempfile.TemporaryFile() as file:
        file.truncate(PROGRESS_BYTES)
        desk = Desk(WorkerPlace(file.fileno()), int)
        job = FunctionJob(build, ranges, stage.spec.resources.memory_bytes, target.uri)
        job.run(desk)


_Way = Callable[[Build, Stage, list[int], Location], object]
_WAYS: Final[dict[str, _Way]] = {"limited": _limited, "in this process": _in_this_process}


def _cpu_s() -> float:
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, kinds))


if __name__ == "__main__":
    main()

"""Asks Airflow for a backfill, waits for the builds and for the trainings that they start."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from http import HTTPStatus
from typing import Any, Final

from services._process import ServiceError
from services.airflow_client import AirflowClient, AirflowRequestError, DagRun

__all__ = ["DayResult", "backfill", "collect"]

_BUILD_S: Final = 300.0
_BACKFILL_S: Final = 60.0
_TRAINING_S: Final = 600.0
_POLL_S: Final = 0.3
_LOG_CHARS: Final = 4000
_STAGES: Final = ("plan", "ingest", "preprocess", "convert", "check", "publish")

Progress = Callable[[Sequence[DagRun]], None]


@dataclass(frozen=True)
class DayResult:
    """The runs of one interval: the build run, and the training run that followed."""

    build: DagRun
    training: DagRun


def backfill(
    client: AirflowClient, dataset: str, first: date, days: int, on_progress: Progress
) -> list[DayResult]:
    """Build the days again through Airflow, and wait for all builds and trainings.

    Days that were run before run again; it is trainfeed that finds out that nothing is to do.

    Raises:
        ServiceError: A run failed or did not end.
    """
    build, train = f"build.{dataset}", f"train.{dataset}"
    for dag_id in (train, build):
        client.unpause(dag_id)
    start = datetime(first.year, first.month, first.day, tzinfo=UTC)
    wanted = [start + timedelta(days=number) for number in range(days)]
    before = {run.run_id for run in client.dag_runs(train)}
    builds = client.wait_for(_start(client, build, wanted), _BUILD_S * (1 + days), on_progress)
    _require_success(client, builds)
    trainings = _trainings(client, train, {f"{day:%Y-%m-%d}" for day in wanted}, before)
    trainings = client.wait_for(trainings, _TRAINING_S, on_progress)
    _require_success(client, trainings)
    by_key = {run.partition_key: run for run in trainings}
    ordered = sorted(builds, key=lambda run: run.logical_date or datetime.min.replace(tzinfo=UTC))
    return [DayResult(run, by_key[f"{run.logical_date:%Y-%m-%d}"]) for run in ordered]


def collect(client: AirflowClient, result: DayResult) -> dict[str, Any]:
    """Return what the tasks of one interval reported, as ``run.json`` has it."""
    seconds: dict[str, float] = {}
    reads, published = 0, dict[str, Any]()
    for task in client.task_instances(result.build.dag_id, result.build.run_id):
        key = "plan" if task.task_id == "plan" else "return_value"
        report = client.xcom(result.build, task.task_id, task.map_index, key=key)
        spent = seconds.get(task.task_id, 0.0) + report.get("seconds", 0.0)
        seconds[task.task_id] = round(spent, 3)
        reads += report.get("source_reads", 0)
        if task.task_id == "publish":
            published = report
    training = client.xcom(result.training, "train")
    seconds["train"] = training["seconds"]
    kept = (
        "dataset", "interval", "generation", "fingerprint", "content_digest",
        "samples", "quarantined", "filtered", "shards", "bytes",
    )  # fmt: skip
    return {
        **{name: published[name] for name in kept},
        "verdict": published["verdict"],
        "source_reads": reads,
        "seconds": {stage: seconds[stage] for stage in (*_STAGES, "train")},
        "training": {name: training[name] for name in ("job", "verdict", "metrics", "intervals")},
    }


def _start(client: AirflowClient, dag_id: str, wanted: list[datetime]) -> list[DagRun]:
    """Run ended runs once more, and backfill the days that have none; return all of them."""
    known = {run.logical_date: run for run in client.dag_runs(dag_id)}
    for run in (known[day] for day in wanted if day in known):
        if run.ended:
            client.clear(dag_id, run.run_id)
    if missing := [day for day in wanted if day not in known]:
        _backfill(client, dag_id, missing)
    return [run for run in client.dag_runs(dag_id) if run.logical_date in wanted]


def _backfill(client: AirflowClient, dag_id: str, missing: list[datetime]) -> None:
    deadline_s = time.monotonic() + _BACKFILL_S
    while True:
        try:
            client.backfill(dag_id, missing[0], missing[-1], max_active_runs=4)
        except AirflowRequestError as error:
            # An earlier backfill counts as active until Airflow looks at it, twice a minute.
            if error.status != HTTPStatus.CONFLICT or time.monotonic() > deadline_s:
                raise
            time.sleep(_POLL_S)
        else:
            return


def _trainings(
    client: AirflowClient, dag_id: str, keys: set[str], before: set[str]
) -> list[DagRun]:
    """Wait until every interval's event has started its training run."""
    deadline_s = time.monotonic() + _BACKFILL_S
    while True:
        runs = [r for r in client.dag_runs(dag_id) if r.run_id not in before]
        newest = {run.partition_key: run for run in runs if run.partition_key in keys}
        if newest.keys() == keys:
            return list(newest.values())
        if time.monotonic() > deadline_s:
            missing = ", ".join(sorted(keys - newest.keys()))
            raise ServiceError(f"no training run of {dag_id} was started for {missing}")
        time.sleep(_POLL_S)


def _require_success(client: AirflowClient, runs: Sequence[DagRun]) -> None:
    for run in runs:
        if run.state == "success":
            continue
        for task in client.task_instances(run.dag_id, run.run_id):
            if task.state == "failed":
                log = client.log(run.dag_id, run.run_id, task)[-_LOG_CHARS:]
                raise ServiceError(f"{run.dag_id} {run.run_id}: {task.task_id} failed\n{log}")
        raise ServiceError(f"{run.dag_id} {run.run_id} is {run.state}")

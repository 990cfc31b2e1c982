"""``python -m benchmarks.month``: a month of flights, backfilled four days at a time, and again.

Question: how long does Airflow take for 31 builds and 31 trainings that the user interface's own
request starts (``POST /api/v2/backfills``), and where does the time go?

Method: an empty database, root, landing and work; a recorded topic; the processes of
docker-compose.yaml. Times of tasks are those of Airflow's REST API; what a stage itself needs is in
its report. CPU is from the kernel's accounts, for each part of Airflow with its descendants.
docs/authors/measured.md has the results.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer
from rich.console import Console

from benchmarks.month._accounts import cpu_seconds
from benchmarks.month._tables import TaskTime, phases, show_cpu, show_tasks
from deploy.settings import TASK_MODULES
from examples.daily import places
from services.airflow import AirflowOptions, AirflowStack
from services.airflow_client import AirflowClient, AirflowRequestError, DagRun

_FIRST: Final = datetime(2013, 1, 1, tzinfo=UTC)
_BUILD: Final = f"build.{places.DATASET}"
_TRAIN: Final = f"train.{places.DATASET}"
_DAY_S: Final = 120.0
_POLL_S: Final = 1.0  # every look costs the API server some time

console = Console(width=150, highlight=False)


@dataclass(frozen=True)
class Outcome:
    """What one backfill came to.

    Attributes:
        wall_s: From the request until the last training had ended.
        builds_s: From the request until the last build had ended.
        cpu_s: By part.
        times: Of all tasks.
        reports: What ``publish`` and ``train`` of each day returned, and the records that the
            day's tasks read.
    """

    wall_s: float
    builds_s: float
    cpu_s: dict[str, float]
    times: list[TaskTime]
    reports: list[dict[str, Any]]


def main(
    *,
    days: Annotated[int, typer.Option(min=1, help="How many, from 2013-01-01 on.")] = 31,
    active: Annotated[int, typer.Option(min=1, help="Runs at once.")] = 4,
    embedded: Annotated[bool, typer.Option(help="The database of `make run`.")] = False,
    preload: Annotated[
        str, typer.Option(help="Modules that are imported before tasks are forked, by commas.")
    ] = ",".join(TASK_MODULES),
    once: Annotated[bool, typer.Option(help="Leave the second backfill out.")] = False,
    out: Annotated[Path | None, typer.Option(help="JSON file of all figures.")] = None,
) -> None:
    """Backfill twice in a place of its own; ``AIRFLOW__…`` variables change its settings."""
    home = Path(tempfile.mkdtemp(prefix="trainfeed-month-"))
    home.chmod(0o711)  # the database server runs as another account
    places.make_lookups()
    place = places.embedded(home)
    settings = {name: value for name, value in os.environ.items() if name.startswith("AIRFLOW__")}
    database: Literal["embedded", "server"] = "embedded" if embedded else "server"
    options = AirflowOptions(
        preload=list(filter(None, preload.split(","))), database=database, paused=False
    )
    stack = AirflowStack(place.home, environ={**place.environ, **settings}, options=options)
    try:
        stack.start()
        stack.wait()
        stack.wait_for_dags([_BUILD, _TRAIN])
        outcomes = [_backfill(stack, days, active, again=False)]
        if not once:
            outcomes.append(_backfill(stack, days, active, again=True))
    finally:
        stack.stop()
        shutil.rmtree(home)
    for outcome in outcomes:
        _show(outcome, days)
    if out is not None:
        out.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))


def _backfill(stack: AirflowStack, days: int, active: int, *, again: bool) -> Outcome:
    client, last = stack.client, _FIRST + timedelta(days=days - 1)
    _request(client, last, active, again=again)
    before = cpu_seconds(stack.status())
    started_s = time.monotonic()
    builds = _wait(client, _BUILD, days, started_s)
    builds_s = time.monotonic() - started_s
    trainings = _wait(client, _TRAIN, days * (1 + again), started_s)[-days:]
    wall_s = time.monotonic() - started_s
    after = cpu_seconds(stack.status())
    times, reports = [], []
    for run in builds:
        report, split = _read(client, run)
        reports.append(report)
        times += split
    for run in trainings:
        report, split = _read(client, run)
        reports.append(report)
        times += split
    spent = {name: after[name] - before[name] for name in after}
    return Outcome(wall_s, builds_s, spent, times, reports)


def _request(client: AirflowClient, last: datetime, active: int, *, again: bool) -> None:
    deadline_s = time.monotonic() + 90
    while True:
        try:
            client.backfill(
                _BUILD,
                _FIRST,
                last,
                max_active_runs=active,
                reprocess="completed" if again else "none",
            )
        except AirflowRequestError:
            # The first backfill counts as active until the scheduler looks at it once more.
            if not again or time.monotonic() > deadline_s:
                raise
            threading.Event().wait(_POLL_S)
        else:
            return


def _wait(client: AirflowClient, dag_id: str, number: int, started_s: float) -> list[DagRun]:
    while True:
        runs = client.dag_runs(dag_id)
        if len(runs) >= number and all(run.ended for run in runs):
            break
        if time.monotonic() - started_s > _DAY_S * number:
            raise SystemExit(f"{dag_id}: {len(runs)} runs, not all of {number} ended")
        threading.Event().wait(_POLL_S)
    failed = [run.run_id for run in runs if run.state != "success"]
    if failed:
        raise SystemExit(f"{dag_id}: failed: {', '.join(failed)}")
    return runs


def _read(client: AirflowClient, run: DagRun) -> tuple[dict[str, Any], list[TaskTime]]:
    """The report of a run's last task, with the records that its tasks read, and its times."""
    tasks = client.task_instances(run.dag_id, run.run_id)
    seconds, reads, last = {}, 0, dict[str, Any]()
    for task in tasks:
        key = "plan" if task.task_id == "plan" else "return_value"
        report = client.xcom(run, task.task_id, task.map_index, key=key)
        seconds[task.task_id, task.map_index] = report.get("seconds", 0.0)
        reads += report.get("source_reads", 0)
        if task.task_id in {"publish", "train"}:
            last = report
    started_at = run.started_at or _FIRST
    return {**last, "dag_id": run.dag_id, "source_reads": reads}, phases(started_at, tasks, seconds)


def _show(outcome: Outcome, days: int) -> None:
    builds = [report for report in outcome.reports if report["dag_id"] == _BUILD]
    trainings = [report for report in outcome.reports if report["dag_id"] == _TRAIN]
    verdicts = {report["verdict"] for report in builds}
    versions = {(report["interval"], report["generation"]) for report in builds}
    jobs = {report["job"] for report in trainings}
    reads = sum(report["source_reads"] for report in builds)
    console.print(
        f"{days} days in {outcome.wall_s:.1f} s (builds {outcome.builds_s:.1f} s): {verdicts},"
        f" {len(versions)} versions, {len(jobs)} jobs, {reads} records read from the source"
    )
    console.print(show_tasks(outcome.times))
    console.print(show_cpu(outcome.cpu_s, outcome.wall_s, len(outcome.times)))


if __name__ == "__main__":
    typer.run(main)

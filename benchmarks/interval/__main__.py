"""``python -m benchmarks.interval``: an interval of one record through Airflow, and ten of them.

Question: how long does the least build take in a real Airflow, and how much of that is Airflow's?

Method: the processes of docker-compose.yaml on an empty database, root, landing and work; a
recorded topic with one record a day. A DAG of the same shape whose tasks do nothing takes turns
with the build: single runs of both, one after the other, then a backfill of ten days of both. Wall
time is that of Airflow's REST API, from the request's entry until the end of the run. CPU is from
the kernel's accounts: all parts of Airflow with their tasks and the database.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final, Literal

import typer
from rich.console import Console

from benchmarks.interval._one_record import DATASET, FIRST, make_ground
from benchmarks.month._accounts import cpu_seconds
from benchmarks.month._tables import TaskTime, phases, show_tasks
from examples.daily import places
from services.airflow import AirflowOptions, AirflowStack
from services.airflow_client import AirflowClient, DagRun

_DAY: Final = timedelta(days=1)
_WAIT_S: Final = 300.0
# In this order in every turn; the first is Airflow alone.
_DAGS: Final = ("empty.ones", f"build.{DATASET}")

console = Console(width=150, highlight=False)


@dataclass(frozen=True)
class Figures:
    """What runs of one DAG took.

    Attributes:
        walls_s: Each run, or each backfill, in seconds.
        cpu_s: Each run or backfill, all processes.
        runs: The runs.
    """

    walls_s: list[float]
    cpu_s: list[float]
    runs: list[DagRun]


def main(
    *,
    rounds: Annotated[int, typer.Option(min=1, help="Single runs of each DAG.")] = 7,
    together: Annotated[int, typer.Option(min=0, help="Days of one backfill.")] = 10,
    embedded: Annotated[bool, typer.Option(help="The database of `make run`.")] = False,
    logs: Annotated[Path | None, typer.Option(help="Copy the logs of tasks there.")] = None,
) -> None:
    """Measure in a place of its own; ``AIRFLOW__…`` variables change its settings."""
    home = Path(tempfile.mkdtemp(prefix="trainfeed-interval-"))
    home.chmod(0o711)  # the database server runs as another account
    stack = stack_of(home, make_ground(home, rounds + 1 + together), embedded=embedded)
    try:
        stack.start()
        stack.wait()
        stack.wait_for_dags(_DAGS)
        _singles(stack, 0, 1)  # the first runs find nothing imported
        _show("one run", _singles(stack, 1, rounds), stack.client, runs=1)
        if together:
            found = {dag: _together(stack, dag, 1 + rounds, together) for dag in _DAGS}
            _show(f"{together} runs together", found, stack.client, runs=together)
    finally:
        stack.stop()
        if logs is not None:
            shutil.copytree(stack.home / "task-logs", logs, dirs_exist_ok=True)
        shutil.rmtree(home)


def stack_of(home: Path, dags: Path, *, embedded: bool, **environ: str) -> AirflowStack:
    """Return an Airflow that is not started, with the data set and its recorded topic.

    Args:
        home: Folder of all of it.
        dags: Folder of DAG files.
        embedded: Whether it has the database of ``make run``.
        environ: Further variables.
    """
    extra = {
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(
            {"conn_type": "kafka", "extra": {"recorded": str(home / "recorded")}}
        ),
        "TRAINFEED_DATASETS": str(home / "datasets"),
    }
    settings = {name: value for name, value in os.environ.items() if name.startswith("AIRFLOW__")}
    database: Literal["embedded", "server"] = "embedded" if embedded else "server"
    options = AirflowOptions(dags=dags, database=database, paused=False)
    every = {**places.embedded_environ(home), **extra, **settings, **environ}
    return AirflowStack(home, environ=every, options=options)


def _singles(stack: AirflowStack, first: int, rounds: int) -> dict[str, Figures]:
    found = {dag: Figures([], [], []) for dag in _DAGS}
    for number in range(first, first + rounds):
        day = FIRST + number * _DAY
        for dag, figures in found.items():
            before = sum(cpu_seconds(stack.status()).values())
            run = stack.client.trigger(dag, data_interval=(day, day + _DAY))
            _note(figures, stack.client.wait_for([run], _WAIT_S), before, stack)
    return found


def _together(stack: AirflowStack, dag: str, first: int, days: int) -> Figures:
    figures = Figures([], [], [])
    known = {run.run_id for run in stack.client.dag_runs(dag)}
    start = FIRST + first * _DAY
    before = sum(cpu_seconds(stack.status()).values())
    stack.client.backfill(dag, start, start + (days - 1) * _DAY, max_active_runs=days)
    deadline_s = time.monotonic() + _WAIT_S
    while True:
        runs = [run for run in stack.client.dag_runs(dag) if run.run_id not in known]
        if len(runs) == days:
            break
        if time.monotonic() > deadline_s:
            raise SystemExit(f"{dag}: {len(runs)} runs of {days} after {_WAIT_S} s")
    _note(figures, stack.client.wait_for(runs, _WAIT_S), before, stack)
    return figures


def _note(figures: Figures, runs: Sequence[DagRun], before: float, stack: AirflowStack) -> None:
    failed = [f"{run.dag_id} {run.run_id}" for run in runs if run.state != "success"]
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")
    begins = [run.queued_at for run in runs if run.queued_at is not None]
    ends = [run.ended_at for run in runs if run.ended_at is not None]
    figures.walls_s.append((max(ends) - min(begins)).total_seconds())
    figures.cpu_s.append(sum(cpu_seconds(stack.status()).values()) - before)
    figures.runs.extend(runs)


def _show(title: str, found: dict[str, Figures], client: AirflowClient, *, runs: int) -> None:
    for dag, figures in found.items():
        walls, cpu = figures.walls_s, figures.cpu_s
        console.print(
            f"{title}, {dag}: {statistics.median(walls):.2f} s ({min(walls):.2f} to"
            f" {max(walls):.2f}), {statistics.median(walls) / runs:.2f} s a run;"
            f" CPU {statistics.median(cpu):.2f} s, load {os.getloadavg()[0]:.1f}"
        )
        console.print(show_tasks(each for run in figures.runs for each in _times(client, run)))
    empty, build = (statistics.median(found[dag].walls_s) for dag in _DAGS)
    console.print(f"{title}: Airflow's own share is {empty / build:.2f}\n")


def stage_seconds(client: AirflowClient, run: DagRun) -> dict[tuple[str, int], float]:
    """Return the seconds that each stage says that it took, by task and index."""
    seconds = {}
    for task in client.task_instances(run.dag_id, run.run_id):
        key = "plan" if task.task_id == "plan" else "return_value"
        report = client.xcom(run, task.task_id, task.map_index, key=key)
        seconds[task.task_id, task.map_index] = report.get("seconds", 0.0)
    return seconds


def _times(client: AirflowClient, run: DagRun) -> list[TaskTime]:
    tasks = client.task_instances(run.dag_id, run.run_id)
    seconds = stage_seconds(client, run) if run.dag_id != _DAGS[0] else {}
    return phases(run.started_at or FIRST, tasks, seconds)


if __name__ == "__main__":
    typer.run(main)

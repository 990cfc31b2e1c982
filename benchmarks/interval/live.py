"""``python -m benchmarks.interval.live``: a schedule of minutes in a real Airflow, as time goes by.

Question: how long after a window has ended and settled is it published, how much of that is
Airflow's, and does an interval that takes long, or whose task is killed, hold up the others?

Method: the processes of docker-compose.yaml; a data set with an interval each minute, and a record
in each, the later ones with stamps that are still to come. The function sleeps for one of them, and
a task of another is killed once. Times are those of Airflow's REST API: an
interval counts as published when its task ``publish`` has ended. Windows that ended before Airflow
was ready are built too, and do not count.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.interval.__main__ import stack_of, stage_seconds
from benchmarks.interval._one_record import DATASET, lay_out
from services.airflow_client import AirflowClient, DagRun

_MINUTE: Final = timedelta(minutes=1)
_SETTLE: Final = timedelta(seconds=5)
_SLEEP_S: Final = 150
_DAG: Final = f"build.{DATASET}"
_KILLED: Final = "publish.before_rename"
_SPEC: Final = """\
name: ones
description: One record a minute
schedule: "* * * * *"
start: {first:%Y-%m-%dT%H:%M:%SZ}
end: {last:%Y-%m-%dT%H:%M:%SZ}
catchup: true
source: {{kafka: {{connection: kafka_default, topic: ones, settle: 5s}}}}
preprocess: {{function: "preprocess:one"}}
schema: {{number: {{dtype: int64}}}}
split: {{train: 1.0}}
resources: {{max_active_runs: 4}}
"""
_FUNCTION: Final = """\
import time


def one(record, lookups):
    if int(record.value) == {slow}:
        time.sleep({sleep_s})
    return {{"number": int(record.value)}}
"""

console = Console(width=150, highlight=False)


def main(
    *,
    minutes: Annotated[int, typer.Option(min=6, help="Intervals after Airflow is ready.")] = 15,
    start_minutes: Annotated[int, typer.Option(help="Minutes until Airflow is ready.")] = 2,
    embedded: Annotated[bool, typer.Option(help="The database of `make run`.")] = False,
) -> None:
    """Measure in a place of its own, for as many minutes as there are intervals."""
    home = Path(tempfile.mkdtemp(prefix="trainfeed-interval-"))
    home.chmod(0o711)  # the database server runs as another account
    (home / "fired").mkdir()
    first = datetime.now(UTC).replace(second=0, microsecond=0)
    count = start_minutes + minutes
    slow = start_minutes + minutes // 3
    moments = [first + number * _MINUTE + _MINUTE / 2 for number in range(count + 1)]
    spec = _SPEC.format(first=first, last=first + (count - 1) * _MINUTE)
    dags = lay_out(home, moments, spec, _FUNCTION.format(slow=slow, sleep_s=_SLEEP_S))
    faults = f"{_KILLED}:kill:{home / 'fired'}"
    stack = stack_of(home, dags, embedded=embedded, TRAINFEED_FAULTS=faults)
    try:
        stack.start()
        stack.wait()
        stack.wait_for_dags([_DAG])
        ready = datetime.now(UTC)
        _wait(stack.client, count, first + count * _MINUTE)
        _show(stack.client, first + slow * _MINUTE, ready)
    finally:
        stack.stop()
        shutil.rmtree(home)


def _wait(client: AirflowClient, count: int, end: datetime) -> None:
    """Wait until all runs have ended."""
    deadline = end + 2 * timedelta(seconds=_SLEEP_S)
    while True:
        runs = client.dag_runs(_DAG)
        if len(runs) == count and all(run.ended for run in runs):
            return
        if datetime.now(UTC) > deadline:
            raise SystemExit(f"{sum(run.ended for run in runs)} runs of {count} ended in time")
        time.sleep(2)


def _show(client: AirflowClient, slow: datetime, ready: datetime) -> None:
    table = Table("interval", "state", "published after s", "stages s", "tries", "")
    usual: list[float] = []
    shares: list[float] = []
    for run in client.dag_runs(_DAG):
        start, end = run.data_interval or (slow, slow)
        tasks = client.task_instances(run.dag_id, run.run_id)
        after_s = _published_at(client, run, end) - _SETTLE.total_seconds()
        inside_s = sum(stage_seconds(client, run).values())
        tries = max(task.try_number for task in tasks)
        note = "slow" if start == slow else "killed once" if tries > 1 else ""
        note = "before Airflow was ready" if end + _SETTLE < ready else note
        if not note:
            usual.append(after_s)
            shares.append(1 - inside_s / after_s)
        cells = (f"{after_s:.1f}", f"{inside_s:.2f}", str(tries), note)
        table.add_row(f"{start:%H:%M}", run.state, *cells)
    console.print(table)
    console.print(
        f"{len(usual)} usual intervals: published {statistics.median(usual):.1f} s after the end of"
        f" window and settle ({min(usual):.1f} to {max(usual):.1f}), Airflow's share"
        f" {statistics.median(shares):.2f}; load {os.getloadavg()[0]:.1f}"
    )


def _published_at(client: AirflowClient, run: DagRun, end: datetime) -> float:
    """Return the seconds from the end of the window until its task ``publish`` had ended."""
    tasks = client.task_instances(run.dag_id, run.run_id)
    (publish,) = (task for task in tasks if task.task_id == "publish")
    if publish.ended_at is None:
        raise SystemExit(f"{run.run_id} is not published")
    return (publish.ended_at - end).total_seconds()


if __name__ == "__main__":
    typer.run(main)

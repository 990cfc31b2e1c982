"""A schedule of minutes in a real Airflow with a real broker, as time goes by.

``python -m services run --require kafka -- python -m benchmarks.interval.live``

Question: how long after a window has ended and settled is it published, how much of that is
Airflow's, and does an interval that takes long, or whose task is killed, hold up the others?

Method: the processes of docker-compose.yaml; a data set with an interval each minute (or each
``--every`` minutes), into which a thread sends one record when half of it is over. The function
sleeps for one of them, longer than two windows, and in six others a stage is killed once. Times
are those of Airflow's REST API: an interval counts as published when its task ``publish`` has
ended. Windows that ended before Airflow was ready are built too, and do not count. At the end each
interval has its own record, and the whole range has each once.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Annotated, Final

import typer
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from benchmarks.interval.__main__ import stack_of, stage_seconds
from benchmarks.interval._one_record import DATASET, lay_out
from services.airflow_client import AirflowClient, DagRun
from trainfeed import open_dataset

_MINUTE: Final = timedelta(minutes=1)
_SETTLE: Final = timedelta(seconds=5)
_SLEEP_WINDOWS: Final = 2.5
_TOPIC: Final = f"ones-{os.getpid()}"
_DAG: Final = f"build.{DATASET}"
_KILLED: Final = (
    "plan.after_save",
    "ingest.before_rename",
    "preprocess.after_runs",
    "convert.after_shard",
    "check.before_rename",
    "publish.before_rename",
)
_SPEC: Final = """\
name: ones
description: One record an interval
schedule: "*/{every} * * * *"
start: {first:%Y-%m-%dT%H:%M:%SZ}
end: {last:%Y-%m-%dT%H:%M:%SZ}
catchup: true
source: {{kafka: {{connection: kafka_default, topic: {topic}, settle: 5s}}}}
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
    every: Annotated[int, typer.Option(min=1, max=30, help="Minutes of a window.")] = 1,
    intervals: Annotated[int, typer.Option(min=6, help="After Airflow is ready.")] = 15,
    start_intervals: Annotated[int, typer.Option(help="Until Airflow is ready.")] = 2,
    embedded: Annotated[bool, typer.Option(help="The database of `make run`.")] = False,
) -> None:
    """Measure in a place of its own, for as many windows as there are intervals."""
    if 60 % every:
        raise typer.BadParameter(f"an hour has no whole number of windows of {every} minutes")
    servers = os.environ["TEST_KAFKA_BOOTSTRAP_SERVERS"]
    home = Path(tempfile.mkdtemp(prefix="trainfeed-interval-"))
    home.chmod(0o711)  # the database server runs as another account
    fired = home / "fired"
    fired.mkdir()
    for point in _KILLED:
        _fired(fired, point).touch()
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    first = now - now.minute % every * _MINUTE
    window = every * _MINUTE
    count = start_intervals + intervals
    slow = start_intervals + intervals // 3
    sleep = _SLEEP_WINDOWS * window
    moments = [first + number * window + window / 2 for number in range(count)]
    spec = _SPEC.format(topic=_TOPIC, every=every, first=first, last=first + (count - 1) * window)
    function = _FUNCTION.format(slow=slow, sleep_s=sleep.total_seconds())
    stack = stack_of(
        home,
        lay_out(home, spec, function),
        embedded=embedded,
        TRAINFEED_FAULTS=",".join(f"{point}:kill:{fired}" for point in _KILLED),
        AIRFLOW_CONN_KAFKA_DEFAULT=json.dumps(
            {"conn_type": "kafka", "extra": {"bootstrap.servers": servers}}
        ),
    )
    over = Event()
    _make_topic(servers)
    try:
        with ThreadPoolExecutor(1) as pool:
            sent = pool.submit(_send, servers, moments, over, fired)
            try:
                stack.start()
                stack.wait()
                stack.wait_for_dags([_DAG])
                ready = datetime.now(UTC)
                _wait(stack.client, count, first + count * window + 2 * sleep)
            finally:
                over.set()
            sent.result()
        _show(stack.client, first + slow * window, ready)
        _read(home / "root", [first + number * window for number in range(count)])
    finally:
        stack.stop()
        shutil.rmtree(home)


def _make_topic(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(_TOPIC, num_partitions=1)])[_TOPIC].result(timeout=30)


def _fired(folder: Path, point: str) -> Path:
    """Return the file that keeps a fault from firing."""
    return folder / f"{point}.fired"


def _send(servers: str, moments: list[datetime], over: Event, fired: Path) -> None:
    """Send the number of each moment when it has come; end early if all is over.

    Into the last windows goes a fault, too: a stage each, which dies once.
    """
    producer = Producer({"bootstrap.servers": servers, "acks": "all"})
    for number, moment in enumerate(moments):
        if over.wait(max((moment - datetime.now(UTC)).total_seconds(), 0)):
            return
        stamp = round(moment.timestamp() * 1000)
        producer.produce(_TOPIC, str(number).encode(), partition=0, timestamp=stamp)
        if producer.flush(30):
            raise SystemExit(f"the broker has not taken record {number}")
        if number >= len(moments) - len(_KILLED):
            _fired(fired, _KILLED[number - len(moments)]).unlink()


def _wait(client: AirflowClient, count: int, deadline: datetime) -> None:
    """Wait until all runs have ended."""
    while True:
        runs = client.dag_runs(_DAG)
        if len(runs) == count and all(run.ended for run in runs):
            return
        if datetime.now(UTC) > deadline:
            raise SystemExit(f"{sum(run.ended for run in runs)} runs of {count} ended in time")
        time.sleep(2)


def _read(root: Path, starts: list[datetime]) -> None:
    """Open all intervals as one set, and each by itself."""
    names = [f"{start:%Y-%m-%dT%H:%M}" for start in starts]
    began = time.perf_counter()
    train = open_dataset(DATASET, root=root, interval=f"{names[0]}/{names[-1]}", split="train")
    opened_s = time.perf_counter() - began
    numbers = sorted(sample["number"] for sample in train.reader()())
    each = [open_dataset(DATASET, root=root, interval=name, split="train") for name in names]
    alone = [[sample["number"] for sample in one.reader()()] for one in each]
    if numbers != list(range(len(names))) or alone != [[number] for number in numbers]:
        raise SystemExit(f"the range has {numbers}, its intervals {alone}")
    console.print(f"{len(names)} intervals, each with its record; opened in {opened_s:.2f} s")


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

"""Airflow recovers by itself when one of its parts is gone: nothing has to be cleared by hand.

An executor's worker that dies with a task that it has just got, and an API server that is away for
three minutes while one task runs and others are due. The settings are those of docker-compose.yaml.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import tempfile
import threading
from pathlib import Path

import pytest

from services.airflow import AirflowOptions, AirflowStack
from tests.e2e.ways import until
from trainfeed.cli.scaffold import new_dataset
from trainfeed.versions import init_root

BUILD, OTHER = "build.clicks", "build.views"
POINT = "preprocess.before_spill"
OUTAGE_S = 185.0
START_S, RUN_S = 300.0, 300.0

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    """Two new data sets without training, and the places that they are built in."""
    folder = tmp_path_factory.mktemp("recovery")
    for name in ("clicks", "views"):
        new_dataset(folder / "datasets", name)
    for place in ("landing", "work", "fired"):
        (folder / place).mkdir()
    init_root(folder / "root")
    return folder


@pytest.fixture(scope="module")
def stack(ground):
    connections = {
        "CEPHFS_DEFAULT": {"conn_type": "generic", "extra": {"path": str(ground / "root")}},
        "HDFS_DEFAULT": {
            "conn_type": "file",
            "extra": {place: str(ground / place) for place in ("landing", "work")},
        },
    }
    environ = {
        "TRAINFEED_DATASETS": str(ground / "datasets"),
        # The first task that gets there stops, and goes on when it is told to.
        "TRAINFEED_FAULTS": f"{POINT}:stop:{ground / 'fired'}",
        **{f"AIRFLOW_CONN_{name}": json.dumps(value) for name, value in connections.items()},
    }
    # Not below pytest's folder: PostgreSQL runs as another account, which may not pass there.
    home = Path(tempfile.mkdtemp(prefix="trainfeed-e2e-"))
    stack = AirflowStack(home, environ=environ, options=AirflowOptions(paused=False))
    try:
        stack.start()
        stack.wait(START_S)
        stack.wait_for_dags([BUILD, OTHER], START_S)
        yield stack
    finally:
        for pid in executor_workers(stack):
            signal_one(pid, signal.SIGCONT)
        stack.stop()
        shutil.rmtree(home, ignore_errors=True)


def children(pid):
    """Pids of the processes that a process has started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found


def executor_workers(stack):
    scheduler = stack.status()["scheduler"]
    titles = ((pid, Path(f"/proc/{pid}/cmdline")) for pid in children(scheduler or -1))
    return [pid for pid, title in titles if b"worker" in title.read_bytes()]


def signal_one(pid, number):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def tasks(client, run):
    return {task.task_id: task for task in client.task_instances(run.dag_id, run.run_id)}


def test_a_worker_that_dies_with_a_task_that_it_has_just_got_costs_one_try(stack):
    """While its worker is stopped, the task is queued; then the worker is gone."""
    client = stack.client
    workers = executor_workers(stack)
    assert len(workers) == 8
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)
    run = client.trigger(OTHER, {"window_start": "2026-01-01", "dry_run": True})
    until(lambda: state(client, run, "plan") == "queued", "the queued task")
    for pid in workers:
        os.kill(pid, signal.SIGKILL)
    (ended,) = client.wait_for([run], 120.0)
    assert ended.state == "success"
    assert tasks(client, run)["plan"].try_number == 2
    log = (stack.home / "logs" / "scheduler.log").read_text()
    assert "was ended by signal 9 before it said how the task went" in log
    assert "the task is tried again if it has a try left" in log
    (event,) = client.call("GET", "/eventLogs?event=state%20mismatch")["event_logs"]
    assert (event["run_id"], event["task_id"]) == (run.run_id, "plan")
    assert "was ended by signal 9 before it said how the task went" in event["extra"]


def state(client, run, task_id):
    task = tasks(client, run).get(task_id)
    return None if task is None else task.state


def test_an_api_server_that_is_away_for_three_minutes_costs_no_try(stack, ground):
    """One task is in the middle of its work, and further ones are due meanwhile."""
    client = stack.client
    busy = client.trigger(BUILD, {"window_start": "2026-01-01"})
    until((ground / "fired" / f"{POINT}.fired").exists, "the task in the middle of its work")
    due = [client.trigger(OTHER, {"window_start": f"2026-01-0{n}"}) for n in (1, 2, 3)]
    stack.kill("api-server")
    threading.Event().wait(OUTAGE_S / 2)
    for pid in stopped(stack):
        os.kill(pid, signal.SIGCONT)
    threading.Event().wait(OUTAGE_S / 2)
    stack.start()
    stack.wait(START_S)
    ended = client.wait_for([busy, *due], RUN_S)
    assert {run.state for run in ended} == {"success"}
    for run in ended:
        tries = {name: task.try_number for name, task in tasks(client, run).items()}
        assert set(tries.values()) == {1}, (run.run_id, tries)


def stopped(stack):
    """Processes below the scheduler that are stopped."""
    found, queue = [], [stack.status()["scheduler"]]
    while queue:
        pid = queue.pop()
        queue += children(pid)
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        if fields[0] == "T":
            found.append(pid)
    return found

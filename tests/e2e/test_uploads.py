"""Uploads of labels on a real Airflow: receipt, event, build, correction, rebuild. Row S06.

The scheduler starts runs of ``uploads.visits`` of its own, every quarter of an hour; no assertion
depends on which run takes a file. The tests need no service but Airflow itself.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import pytest

from services.airflow import AirflowOptions, AirflowStack
from trainfeed.cli.scaffold import new_dataset
from trainfeed.uploads import ReceiptBook
from trainfeed.versions import DatasetFolder, Version, init_root

RUN_S = 300.0
DAY = "2026-01-01"
UPLOADS, BUILD = "uploads.visits", "build.visits"
# A task that dies after the first receipt, and one before it writes down which had an event.
KILLED = ("uploads.after_receipt", "uploads.before_announced")
SPEC = """
name: visits
description: Did the visitor buy something?
schedule: "@daily"
start: 2026-01-01
end: 2026-01-03
catchup: false
source: {recorded: {path: ./sample}}
preprocess: {function: "preprocess:make_sample"}
schema:
  visitor: {dtype: int64}
  bought: {dtype: int8}
uploads: {key: [visitor], labels: [bought], join: left, defaults: {bought: -1}}
"""
CODE = """
from trainfeed.preprocessing import Reject


def make_sample(record, lookups):
    row = record.json()
    if not isinstance(row, dict):
        raise Reject("no_object")
    return {"visitor": row["visitor"]}
"""

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The data set below the publication root; beside the root is all else of the test."""
    place = tmp_path_factory.mktemp("uploads")
    new_dataset(place / "datasets", "visits")
    visits = place / "datasets" / "visits"
    (visits / "dataset.yaml").write_text(SPEC)
    (visits / "preprocess.py").write_text(CODE)
    for name in ("fired", "landing", "work"):
        (place / name).mkdir()
    init_root(place / "root")
    return DatasetFolder(place / "root", "visits")


@pytest.fixture(scope="module")
def client(folder):
    """The client of an Airflow whose tasks die at each of the points, once."""
    place = folder.path.parents[1]
    local = {name: str(place / name) for name in ("landing", "work")}
    connections = {
        "CEPHFS_DEFAULT": {"conn_type": "generic", "extra": {"path": str(place / "root")}},
        "HDFS_DEFAULT": {"conn_type": "file", "extra": local},
    }
    environ = {
        "TRAINFEED_DATASETS": str(place / "datasets"),
        "TRAINFEED_FAULTS": ",".join(f"{point}:kill:{place / 'fired'}" for point in KILLED),
        **{f"AIRFLOW_CONN_{name}": json.dumps(value) for name, value in connections.items()},
    }
    # Not below pytest's folder: PostgreSQL runs as another account, which may not pass there.
    home = Path(tempfile.mkdtemp(prefix="trainfeed-e2e-"))
    stack = AirflowStack(home, environ=environ, options=AirflowOptions())
    try:
        stack.start()
        stack.wait()
        stack.wait_for_dags([UPLOADS, BUILD])
        for dag_id in (UPLOADS, BUILD):
            stack.client.unpause(dag_id)
        yield stack.client
    finally:
        stack.stop()
        shutil.rmtree(home)


def put(folder, name, text):
    """Put a file as people do: under an unfinished name first."""
    place = folder.uploads / DAY
    place.mkdir(parents=True, exist_ok=True)
    (place / f".{name}").write_text(text)
    (place / f".{name}").rename(place / name)


def look(client):
    """Run the DAG of uploads, after the run that may be active; return its run."""
    (run,) = client.wait_for([client.trigger(UPLOADS)], RUN_S)
    return run


def taken(client, numbers):
    """Return the run that sent the event of these receipts; there is one."""
    found = [
        run
        for run in client.dag_runs(UPLOADS)
        if run.ended and client.xcom(run, "check", key="uploads")["announced"] == numbers
    ]
    (run,) = found
    return run


def events(client):
    return [event["extra"] for event in client.asset_events(UPLOADS)]


def states(client, run):
    return {task.task_id: task.state for task in client.task_instances(run.dag_id, run.run_id)}


def log(client, run, task_id):
    tasks = client.task_instances(run.dag_id, run.run_id)
    (task,) = [task for task in tasks if task.task_id == task_id]
    return client.log(run.dag_id, run.run_id, task)


def account(folder):
    version = Version.resolve(folder, DAY)
    assert list(version.problems()) == []
    return version.manifest.generation, version.manifest.uploads["labels"]


def test_an_upload_goes_through_receipt_event_build_correction_and_rebuild(client, folder):
    # A bad file first: of those it is found with, none waits for its correction.
    put(folder, "bad.csv", "visitor,bought\n1,2.5\n")
    put(folder, "labels.csv", "visitor,bought\n1,1\n2,0\n999999,1\n")
    look(client)
    first = taken(client, [1, 1])
    assert states(client, first) == {"check": "success", "build": "success", "settle": "failed"}
    assert "refused uploads: 1, nothing of them is used, all others were taken" in log(
        client, first, "settle"
    )
    assert f"{DAY}/bad.csv: line 2" in log(client, first, "settle")
    assert events(client) == [
        {
            "receipts": [1, 1],
            "rows": 3,
            "files": [f"{DAY}/labels.csv"],
            "intervals": [DAY],
            "num_intervals": 1,
        }
    ]
    (build,) = [run for run in client.dag_runs(BUILD) if run.run_id == f"uploads__{DAY}__1"]
    (build,) = client.wait_for([build], RUN_S)
    assert (build.state, build.note) == ("success", DAY)
    generation, labels = account(folder)
    assert (generation, labels["rows"], labels["used"], labels["unused"]) == (1, 3, 2, 1)

    (folder.uploads / DAY / "bad.csv").unlink()
    put(folder, "correction.jsonl", '{"visitor": 2, "bought": 1}\n')
    look(client)
    second = taken(client, [2, 2])
    assert (second.state, states(client, second)["build"]) == ("success", "skipped")
    assert f"newer uploads, which stay as they are: 1: {DAY}" in log(client, second, "check")
    assert account(folder)[0] == 1

    again = client.trigger(BUILD, {"window_start": DAY})
    (again,) = client.wait_for([again], RUN_S)
    assert again.state == "failed"
    rebuild = client.trigger(BUILD, {"window_start": DAY, "rebuild": "visitor 2 has bought"})
    (rebuild,) = client.wait_for([rebuild], RUN_S)
    assert rebuild.state == "success"
    generation, labels = account(folder)
    assert (generation, labels["superseded"], labels["used"]) == (2, 1, 2)

    # With nothing new, a run is one skipped task, and there is no event.
    assert set(states(client, look(client)).values()) == {"skipped"}
    assert len(events(client)) == 2
    assert [receipt.number for receipt in ReceiptBook(folder).receipts()] == [1, 2]
    fired = folder.path.parents[1] / "fired"
    assert {path.stem for path in fired.iterdir()} == set(KILLED)

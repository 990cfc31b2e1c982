"""A dry run through the scheduler: green, everything after the plan skipped, nothing written.

Then the same interval for real, in the same Airflow: a version, its event, one training, and the
links between them. The data set is the one that ``trainfeed new`` makes.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from urllib.parse import quote

import pytest

from services.airflow import AirflowOptions, AirflowStack
from services.airflow_client import AirflowRequestError
from tests.e2e.ways import until
from trainfeed.scaffold import new_dataset

BUILD, TRAIN = "build.clicks", "train.clicks"
PLACES = ("root", "landing", "work")
TIMEOUT_S = 120.0


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    """Folder of a new data set, and of the places that it is built in."""
    folder = tmp_path_factory.mktemp("look")
    new_dataset(folder / "datasets", "clicks")
    for place in PLACES:
        (folder / place).mkdir()
    return folder


@pytest.fixture(scope="module")
def client(ground):
    connections = {
        "CEPHFS_DEFAULT": {"conn_type": "generic", "extra": {"path": str(ground / "root")}},
        "HDFS_DEFAULT": {
            "conn_type": "file",
            "extra": {place: str(ground / place) for place in ("landing", "work")},
        },
    }
    environ = {
        "TRAINFEED_DATASETS": str(ground / "datasets"),
        **{f"AIRFLOW_CONN_{name}": json.dumps(value) for name, value in connections.items()},
    }
    # Not below pytest's folder: PostgreSQL runs as another account, which may not pass there.
    home = Path(tempfile.mkdtemp(prefix="trainfeed-e2e-"))
    options = AirflowOptions(preload=("numpy", "pyarrow", "pydantic"))
    stack = AirflowStack(home, environ=environ, options=options)
    try:
        stack.start()
        stack.wait()
        stack.wait_for_dags([BUILD, TRAIN])
        for dag_id in (BUILD, TRAIN):
            stack.client.unpause(dag_id)
        yield stack.client
    finally:
        stack.stop()
        shutil.rmtree(home, ignore_errors=True)


def finished(client, runs):
    return client.wait_for(runs, TIMEOUT_S, lambda _: None)


def run(client, **conf):
    (ended,) = finished(client, [client.trigger(BUILD, {"window_start": "2026-01-02", **conf})])
    return ended


def states(client, ended):
    return {task.task_id: task.state for task in client.task_instances(BUILD, ended.run_id)}


def written(ground):
    return [path for place in PLACES for path in (ground / place).rglob("*")]


SKIPPED = dict.fromkeys(("ingest", "preprocess", "convert", "check", "publish"), "skipped")


def test_a_dry_run_ends_green_and_writes_nothing(client, ground):
    ended = run(client, dry_run=True)
    assert ended.state == "success"
    assert states(client, ended) == {"plan": "success", **SKIPPED}
    (plan,) = (t for t in client.task_instances(BUILD, ended.run_id) if t.task_id == "plan")
    log = client.log(BUILD, ended.run_id, plan)
    assert "dry run of clicks/2026-01-02: nothing was written" in log
    assert "would publish  clicks/2026-01-02/g0001" in log
    # Cleared, it is a dry run still.
    client.clear(BUILD, ended.run_id)
    (again,) = finished(client, [ended])
    assert states(client, again) == {"plan": "success", **SKIPPED}
    assert written(ground) == []
    assert client.asset_events() == []
    assert client.dag_runs(TRAIN) == []


def test_the_real_run_publishes_and_trains_once_and_links_to_both(client, ground):
    ended = run(client)
    assert ended.state == "success"
    assert set(states(client, ended).values()) == {"success"}
    assert (ground / "root/clicks/versions/2026-01-02/g0001/MANIFEST.json").is_file()
    (event,) = client.asset_events()
    assert event["partition_key"] == "2026-01-02"
    until(lambda: client.dag_runs(TRAIN), "a training run")
    (training,) = finished(client, client.dag_runs(TRAIN))
    assert (training.state, training.partition_key) == ("success", "2026-01-02")
    assert set(links(client, ended, "publish")) == {"Version", "Training runs"}
    (address,) = links(client, training, "train").values()
    assert address.endswith(
        f"/dags/{TRAIN}/runs/{quote(training.run_id, safe='')}/tasks/train/xcom"
    )


def links(client, ended, task_id):
    run_id = quote(ended.run_id, safe="")
    path = f"/dags/{ended.dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/links"
    return client._call("GET", path)["extra_links"]


@pytest.mark.parametrize(
    "conf", [{"window_start": "2026-01-02T03:00:00Z"}, {"dry_run": "maybe"}, {"rebuild": "a"}]
)
def test_a_trigger_with_a_wrong_value_is_refused_at_once(client, conf):
    (name,) = conf
    with pytest.raises(AirflowRequestError, match=f"400 .*Invalid input for param {name}"):
        client.trigger(BUILD, {"window_start": "2026-01-02", **conf})

"""The task ``spark`` in a real Airflow, on a standalone cluster: killed, marked as failed, cleared.

Every state is one in which a Python worker of Spark has stopped itself.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from services.airflow import AirflowOptions, AirflowStack
from tests.integration.spark.running import SUBMIT, parent, processes, send, stopped, until
from trainfeed.cli.scaffold import new_dataset
from trainfeed.core.config import Environment
from trainfeed.pipeline.local import build
from trainfeed.specification import load_spec
from trainfeed.versions import DatasetFolder, Version, init_root

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(3600)]
DAG = "build.clicks"
MAP, WRITE = "spark.after_function", "convert.before_sync"
START_S, RUN_S = 300.0, 600.0


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    """A new data set, which Spark builds."""
    folder = tmp_path_factory.mktemp("airflow")
    new_dataset(folder / "datasets", "clicks")
    spec = folder / "datasets" / "clicks" / "dataset.yaml"
    old = '{function: "preprocess:make_sample"}'
    assert old in spec.read_text()
    new = old.replace("}", ", engine: spark}")
    spec.write_text(spec.read_text().replace(old, new))
    for place in ("landing", "work", "fired", "root"):
        (folder / place).mkdir()
    init_root(folder / "root")
    return folder


def spark_connection():
    master = urlsplit(os.environ["TEST_SPARK_MASTER"])
    conf = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.cores.max": "2",
    }
    binary = os.environ["TEST_SPARK_HOME"] + "/bin/spark-submit"
    extra = {"spark-binary": binary, "conf": conf}
    host = f"spark://{master.hostname}"
    return {"conn_type": "spark", "host": host, "port": master.port, "extra": extra}


@pytest.fixture(scope="module")
def client(ground):
    places = {place: str(ground / place) for place in ("landing", "work")}
    connections = {
        "CEPHFS_DEFAULT": {"conn_type": "generic", "extra": {"path": str(ground / "root")}},
        "HDFS_DEFAULT": {"conn_type": "file", "extra": places},
        "SPARK_DEFAULT": spark_connection(),
    }
    environ = {
        "TRAINFEED_DATASETS": str(ground / "datasets"),
        "TRAINFEED_FAULTS": ",".join(f"{each}:stop:{ground / 'fired'}" for each in (MAP, WRITE)),
        **{f"AIRFLOW_CONN_{name}": json.dumps(value) for name, value in connections.items()},
    }
    # Not below pytest's folder: PostgreSQL runs as another account, which may not pass there.
    home = Path(tempfile.mkdtemp(prefix="trainfeed-e2e-"))
    stack = AirflowStack(home, environ=environ, options=AirflowOptions(paused=False))
    try:
        stack.start()
        stack.wait(START_S)
        stack.wait_for_dags([DAG], START_S)
        yield stack.client
    finally:
        for pid in stopped(ground):
            send(pid, signal.SIGKILL)
        stack.stop()
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="module")
def run(client):
    return client.trigger(DAG, {"window_start": "2026-01-01"})


def task_of(client, run):
    tasks = client.task_instances(run.dag_id, run.run_id)
    return next((task for task in tasks if task.task_id == "spark"), None)


def no_application(ground):
    """Nothing is left of an application, but workers that have stopped themselves."""
    return not set(processes(ground, b"org.apache.spark")) - set(stopped(ground))


def end_stopped(ground):
    for pid in stopped(ground):
        send(pid, signal.SIGKILL)


def digest(root, interval):
    version = Version.resolve(DatasetFolder(root, "clicks"), interval)
    return (version.path / "MANIFEST.sha256").read_text()


def test_a_killed_task_takes_the_application_along_and_is_tried_again(client, ground, run):
    until(lambda: stopped(ground))
    assert (ground / "fired" / f"{MAP}.fired").exists()
    (submit,) = processes(ground, SUBMIT)
    send(parent(submit), signal.SIGKILL)
    until(lambda: no_application(ground))
    end_stopped(ground)
    # The next try gets through the map, and stops where it writes.
    until(lambda: stopped(ground))
    assert (ground / "fired" / f"{WRITE}.fired").exists()
    assert task_of(client, run).try_number == 2


def test_a_task_that_is_marked_as_failed_ends_its_application(client, ground, run):
    path = f"/dags/{DAG}/dagRuns/{run.run_id}/taskInstances/spark"
    client.call("PATCH", path, {"new_state": "failed"})
    until(lambda: no_application(ground))
    end_stopped(ground)
    (ended,) = client.wait_for([run], RUN_S)
    assert ended.state == "failed"
    assert list((ground / "root").glob("clicks/versions/*/g*")) == []
    said = client.log(run.dag_id, run.run_id, task_of(client, run))
    assert "the Spark application was ended by its task" in said


def test_a_cleared_task_publishes_what_the_local_engine_does(client, ground, run, tmp_path):
    client.clear(run.dag_id, run.run_id, only_failed=True)
    (ended,) = client.wait_for([run], RUN_S)
    assert ended.state == "success"
    assert no_application(ground)
    said = client.log(run.dag_id, run.run_id, task_of(client, run))
    assert "spark: trainfeed progress: preprocess" in said
    assert "bytes shuffled" in said
    report = client.xcom(run, "spark")
    assert report["preprocess_s"] > 0
    assert report["shuffle_bytes"] > 0
    init_root(tmp_path / "root")
    env = Environment(
        root=str(tmp_path / "root"),
        landing=str(tmp_path / "landing"),
        work=str(tmp_path / "work"),
        kafka={},
        datasets=ground / "datasets",
    )
    spec = load_spec(ground / "datasets" / "clicks")
    here = spec.model_copy(
        update={"preprocess": spec.preprocess.model_copy(update={"engine": "local"})}
    )
    build(here, spec.schedule_model().interval_named("2026-01-01"), env)
    assert digest(ground / "root", "2026-01-01") == digest(tmp_path / "root", "2026-01-01")

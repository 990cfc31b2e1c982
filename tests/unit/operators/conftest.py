"""An Airflow of its own for this process: no database, nothing from the user's home."""

from __future__ import annotations

import json
import os
from contextlib import nullcontext
from datetime import UTC, datetime
from types import SimpleNamespace

from tests.airflow_home import HOME

# Airflow reads these when it is first imported, which the test modules do.
os.environ["AIRFLOW_HOME"] = HOME
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"

import pytest
from airflow.sdk.api.datamodels._generated import DagRunType

SPEC = """\
name: clicks
schedule: "@daily"
start: 2026-01-01
end: 2026-01-31
source: {kafka: {topic: clicks, connection: kafka_clicks}}
preprocess: {function: "preprocess:clicks"}
schema: {label: {dtype: int64}}
train: {entry: "train:main", window: 3, wait: 2h}
"""
CONNECTIONS = {
    "hdfs_default": {
        "conn_type": "webhdfs",
        "host": "namenode",
        "port": 9870,
        "login": "trainfeed",
        "extra": {"landing": "/landing", "work": "/work"},
    },
    "cephfs_default": {"conn_type": "generic", "extra": {"path": "/pfs/dataset"}},
    "kafka_clicks": {"conn_type": "kafka", "extra": {"bootstrap.servers": "broker:9092"}},
}

STARTED_AT = datetime(2026, 2, 1, tzinfo=UTC)


@pytest.fixture
def set_connection(monkeypatch):
    """Define a connection for one test: id, then the parts that differ from the usual ones."""

    def set_one(name, **changes):
        value = {**CONNECTIONS.get(name, {}), **changes}
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(value))

    return set_one


@pytest.fixture
def connections(set_connection):
    """All connections that a build of ``clicks`` needs."""
    for name in CONNECTIONS:
        set_connection(name)


@pytest.fixture
def clicks(tmp_path, monkeypatch, connections):
    """A data set ``clicks`` that operators can open; gives its folder."""
    folder = tmp_path / "datasets" / "clicks"
    folder.mkdir(parents=True)
    (folder / "dataset.yaml").write_text(SPEC)
    for module in ("preprocess", "train"):
        (folder / f"{module}.py").touch()
    monkeypatch.setenv("TRAINFEED_DATASETS", str(folder.parent))
    return folder


class TaskInstance:
    """Keeps the XComs that a task pushes, and says which DAGs are paused and which runs active."""

    def __init__(self):
        self.xcoms = {}
        self.paused = False
        self.active = []

    def get_dr_count(self, dag_id, logical_dates=None, states=None):
        assert (dag_id, states) == ("build.clicks", ["queued", "running"])
        return sum(logical_dates is None or date in logical_dates for date in self.active)

    def get_dag(self, dag_id):
        if isinstance(self.paused, Exception):
            raise self.paused
        return SimpleNamespace(dag_id=dag_id, is_paused=self.paused)

    def xcom_push(self, key, value):
        self.xcoms[key] = value


@pytest.fixture
def make_context():
    """Make the context of a task: run type, start of the run, parameters, further keys."""

    def make(run_type="scheduled", *, started_at=STARTED_AT, params=None, **keys):
        run = SimpleNamespace(
            run_type=DagRunType(run_type),
            dag_id="some_dag",
            run_id="run 1",
            start_date=started_at,
            run_after=started_at,
        )
        return {
            "dag_run": run,
            "params": {"window_start": None, **(params or {})},
            "partition_key": None,
            "task_reschedule_count": 0,
            "ti": TaskInstance(),
            **keys,
        }

    return make


@pytest.fixture(autouse=True)
def attempts(monkeypatch):
    """The work that tasks have marked as begun; nothing is written anywhere."""
    made = []

    def build_attempt(build, work):
        made.append((build.ref.plan_id, work))
        return nullcontext()

    monkeypatch.setattr("trainfeed.pipeline.build_attempts.build_attempt", build_attempt)
    return made

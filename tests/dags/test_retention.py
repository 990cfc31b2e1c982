"""The DAG ``retention``: on at once, by stated rules only, and the same as the command."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException

from tests.unit.pipeline.conftest import make_project
from trainfeed.versions.history import actions

DAY = "2024-03-01"

# Airflow's own reading of .airflowignore.
pytestmark = pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")


@pytest.fixture
def dag(load):
    bag = load("dags/retention.py")
    assert bag.import_errors == {}
    return bag.dags["retention"]


@pytest.fixture
def rebuilt(tmp_path, monkeypatch):
    """A data set with two generations, and the connections that lead there."""
    project = make_project(tmp_path)
    places = {name: getattr(project.env, name) for name in ("root", "landing", "work")}
    hdfs = {"conn_type": "file", "extra": {key: places[key] for key in ("landing", "work")}}
    monkeypatch.setenv("AIRFLOW_CONN_HDFS_DEFAULT", json.dumps(hdfs))
    cephfs = {"conn_type": "file", "extra": {"path": places["root"]}}
    monkeypatch.setenv("AIRFLOW_CONN_CEPHFS_DEFAULT", json.dumps(cephfs))
    kafka = {"conn_type": "kafka", "extra": {"recorded": str(tmp_path / "recorded")}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(kafka))
    monkeypatch.setenv("TRAINFEED_DATASETS", str(project.env.datasets))
    project.build()
    project.build(rebuild="again")
    return project


def prune(dag, task=None, **params):
    run = SimpleNamespace(
        dag_id="retention",
        run_id="scheduled__2024-03-05",
        run_type=SimpleNamespace(value="scheduled"),
        run_after=datetime(2024, 3, 5, tzinfo=UTC),
    )
    context = {"params": {**dag.params.dump(), **params}, "dag_run": run, "ti": task or Pushed()}
    return dag.get_task("prune").execute(context)


class Pushed:
    def __init__(self):
        self.pushed = {}

    def xcom_push(self, key, value):
        self.pushed[key] = value


def test_it_is_on_at_once_and_never_twice(dag):
    assert not dag.is_paused_upon_creation
    assert (dag.catchup, dag.max_active_runs) == (False, 1)


def test_without_a_stated_rule_no_version_goes(dag, rebuilt):
    for number in range(3):
        rebuilt.build(rebuild=f"try {number}")
    prune(dag)
    assert rebuilt.folder.generations(DAY) == [1, 2, 3, 4, 5]


def test_by_a_stated_rule_a_run_removes_and_says_so_in_the_history(dag, rebuilt):
    rebuilt.edit("seed: 7", "seed: 7\nretention: {keep_generations: 1}")
    dry = prune(dag, dry_run=True)
    assert rebuilt.folder.generations(DAY) == [1, 2]
    assert prune(dag) == dry
    assert dry["clicks"]["removed"]["generations"]["number"] == 1
    assert rebuilt.folder.generations(DAY) == [2]
    who = {(each.who, each.details["by"]) for each in actions(rebuilt.folder)}
    run = "Airflow run retention/scheduled__2024-03-05"
    assert who == {("schedule of the DAG retention", run)}


def test_a_data_set_that_stays_above_its_bytes_fails_the_run(dag, rebuilt):
    rebuilt.edit("seed: 7", "seed: 7\nretention: {max_bytes: 1}")
    with pytest.raises(AirflowFailException, match="clicks: not pruned, or above max_bytes"):
        prune(dag, task := Pushed(), dataset="clicks")
    assert set(task.pushed) == {"told", "pruned", "failure"}

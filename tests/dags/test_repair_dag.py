"""The DAG ``repair``: its form, and a damaged version that it puts right."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException

from tests.unit.pipeline.conftest import project
from tests.unit.upkeep.repair.conftest import flip
from trainfeed.versions.history import actions

__all__ = ["project"]

# What tasks left for the page of their run.
LEFT = []

# Airflow's own reading of .airflowignore.
pytestmark = pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")
DAY = "2024-03-01"


@pytest.fixture
def dag(load):
    bag = load("dags/repair.py")
    assert bag.import_errors == {}
    return bag.dags["repair"]


@pytest.fixture
def damaged(project, monkeypatch):
    """A version with a damaged shard, and the connections that lead there."""
    project.build()
    flip(next(project.folder.version(DAY, 1).glob("*-eval-*")))
    env = project.env
    for name, extra in (
        ("HDFS_DEFAULT", {"landing": env.landing, "work": env.work}),
        ("CEPHFS_DEFAULT", {"path": env.root}),
        ("KAFKA_DEFAULT", {"recorded": str(project.path / "recorded")}),
    ):
        value = {"conn_type": "file", "extra": extra}
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(value))
    monkeypatch.setenv("TRAINFEED_DATASETS", str(env.datasets))
    return project


def run(dag, **params):
    values = {**dag.params.dump(), "dataset": "clicks", "interval": DAY, **params}
    context = {
        "params": values,
        "ti": SimpleNamespace(xcom_push=lambda **left: LEFT.append(left)),
        "dag_run": SimpleNamespace(
            dag_id="repair",
            run_id="manual",
            run_after=datetime(2024, 3, 2, tzinfo=UTC),
            triggering_user_name="ana",
        ),
    }
    return dag.get_task("repair").execute(context)


def test_it_runs_by_its_form_alone(dag):
    assert dag.schedule is None
    assert list(dag.params) == [
        *("dataset", "interval", "generation", "why", "copy_from", "dry_run"),
    ]


def test_a_dry_run_shows_the_damage_and_does_not_fail(dag, damaged):
    LEFT.clear()
    found = run(dag, dry_run=True)
    assert (found["version"], found["num_files"]) == (f"clicks/{DAY}/g0001", 1)
    assert not found["is_whole"]
    assert "is damaged: 1 files" in str(LEFT)
    assert damaged.version().problems().__next__()


def test_a_run_repairs_in_the_name_of_its_user(dag, damaged):
    LEFT.clear()
    found = run(dag, generation="g0001", why="a bad disk")
    assert found["is_whole"]
    damaged.version().verify()
    assert "is intact again" in str(LEFT)
    LEFT.clear()
    assert run(dag)["num_files"] == 0
    assert f"{DAY}/g0001 is intact" in str(LEFT)
    named = {(each.who, each.details["by"]) for each in actions(damaged.folder)}
    assert named == {("ana", "Airflow run repair/manual")}


def test_damage_that_is_left_fails_the_run_at_once(dag, damaged, caplog):
    caplog.set_level("INFO")
    damaged.edit("seed: 7", "seed: 8")
    LEFT.clear()
    with pytest.raises(AirflowFailException, match="still damaged"):
        run(dag)
    assert [each["key"] for each in LEFT] == ["told", "failure"]
    assert "spec.seed: 7 → 8" in caplog.text

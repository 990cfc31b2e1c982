"""The DAG ``outdated``: off until it is switched on; a report about all data sets, and no build."""

from __future__ import annotations

import json

import pytest
from airflow.sdk.exceptions import AirflowFailException

from tests.unit.pipeline.conftest import project

__all__ = ["project"]

# Airflow's own reading of .airflowignore.
pytestmark = pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")


@pytest.fixture
def dag(load):
    bag = load("dags/outdated.py")
    assert bag.import_errors == {}
    return bag.dags["outdated"]


@pytest.fixture
def published(project, monkeypatch):
    """The data set with a published interval, and the connections that lead there."""
    project.build()
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


class Task:
    """The part of a task instance that the operator uses."""

    def __init__(self):
        self.xcoms = {}

    def xcom_push(self, key, value):
        self.xcoms[key] = value


def compare(dag, task=None, **params):
    context = {"params": {**dag.params.dump(), **params}, "ti": task or Task()}
    return dag.get_task("compare").execute(context)


def test_it_is_off_until_somebody_switches_it_on(dag):
    assert dag.is_paused_upon_creation
    assert (dag.catchup, dag.max_active_runs) == (False, 1)
    assert dag.params["against_source"] is True


def test_a_night_without_a_finding_is_in_order(dag, published):
    found = compare(dag)
    assert (found["clicks"]["counts"], found["clicks"]["in_order"]) == ({"current": 1}, True)


def test_outdated_versions_are_reported_and_do_not_fail_the_run(dag, published, caplog):
    caplog.set_level("INFO")
    published.edit("seed: 7", "seed: 8")
    found = compare(dag)
    assert found["clicks"]["counts"] == {"outdated": 1}
    assert found["clicks"]["causes"][0]["text"] == "spec.seed: 7 → 8"
    assert "clicks: 1 outdated" in caplog.text
    assert published.folder.last_generation("2024-03-01") == 1


def test_a_source_that_is_away_is_reported_by_the_comparison_only(dag, published, caplog):
    caplog.set_level("INFO")
    (published.path / "recorded").rename(published.path / "elsewhere")
    compare(dag, against_source=False)
    assert "source away" not in caplog.text
    compare(dag)
    assert "2024-03-01: source away: TopicNotFoundError" in caplog.text


def test_a_data_set_that_cannot_be_compared_fails_the_run_after_the_others(dag, published):
    broken = published.env.datasets / "broken"
    broken.mkdir()
    (broken / "dataset.yaml").write_text("name: broken\n")
    task = Task()
    with pytest.raises(AirflowFailException, match="broken could not be compared"):
        compare(dag, task)
    assert task.xcoms["compared"]["clicks"]["counts"] == {"current": 1}
    # The page of the run has the reason.
    assert "broken could not be compared" in task.xcoms["failure"]["message"]


def test_the_report_can_be_an_xcom(dag, published):
    published.edit("seed: 7", "seed: 8")
    assert json.loads(json.dumps(compare(dag)))

"""The DAG ``retire``: a person ends a range by a form, or is told who needs it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException

from tests.unit.pipeline.conftest import make_project
from trainfeed.core.accounts import Decision
from trainfeed.versions.lease import hold_versions
from trainfeed.versions.retire import retirement_of
from trainfeed.versions.tag import apply_change, propose_tag

# What tasks left for the page of their run.
TOLD = []
DAYS = ["2024-03-01", "2024-03-02"]

# Airflow's own reading of .airflowignore.
pytestmark = pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")


@pytest.fixture
def dag(load):
    bag = load("dags/retire.py")
    assert bag.import_errors == {}
    return bag.dags["retire"]


@pytest.fixture
def two(tmp_path, monkeypatch):
    """A data set with two days, and the connections that lead there."""
    project = make_project(tmp_path)
    places = {name: getattr(project.env, name) for name in ("root", "landing", "work")}
    hdfs = {"conn_type": "file", "extra": {key: places[key] for key in ("landing", "work")}}
    monkeypatch.setenv("AIRFLOW_CONN_HDFS_DEFAULT", json.dumps(hdfs))
    cephfs = {"conn_type": "file", "extra": {"path": places["root"]}}
    monkeypatch.setenv("AIRFLOW_CONN_CEPHFS_DEFAULT", json.dumps(cephfs))
    kafka = {"conn_type": "kafka", "extra": {"recorded": str(tmp_path / "recorded")}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(kafka))
    monkeypatch.setenv("TRAINFEED_DATASETS", str(project.env.datasets))
    for day in DAYS:
        project.build(day)
    return project


def retire(dag, user="ana", **params):
    form = {"dataset": "clicks", "range": DAYS[0], "why": "the audit is over"}
    run = SimpleNamespace(
        dag_id="retire",
        run_id="manual",
        run_after=datetime(2024, 4, 1, tzinfo=UTC),
        triggering_user_name=user,
    )
    values = {**form, "dry_run": False, **params}
    ti = SimpleNamespace(xcom_push=lambda **left: TOLD.append(left["value"]))
    return dag.get_task("retire").execute({"params": values, "dag_run": run, "ti": ti})


def test_a_person_retires_and_is_named(dag, two):
    assert list(dag.params) == ["dataset", "range", "why", "dry_run"]
    assert dag.params["dry_run"] is True, "what cannot be undone begins as a dry run"
    assert dag.schedule is None
    dry = retire(dag, dry_run=True)
    assert two.folder.generations(DAYS[0]) == [1]
    done = retire(dag)
    assert (dry["intervals"], done["intervals"]) == (1, 1)
    found = retirement_of(two.folder, DAYS[0])
    named = (found.who, found.account, found.why)
    assert named == ("ana", "Airflow run retire/manual", "the audit is over")
    assert retire(dag)["already"] == 1


def test_the_page_of_the_run_says_what_went_for_good_and_what_stays(dag, two):
    TOLD.clear()
    retire(dag, dry_run=True)
    retire(dag)
    tried, done = TOLD
    assert tried["target"] == done["target"] == f"clicks/{DAYS[0]}"
    assert "would be retired for good" in tried["lines"][0]
    assert "nothing was changed" in tried["lines"][-1]
    assert "was retired for good" in done["lines"][0]
    # Without a rule for landing files, the raw records stay.
    assert any(line.startswith("landing ") and "stays" in line for line in done["lines"])
    assert "retention.landing" in done["lines"][-1]


def test_what_is_needed_fails_the_task_and_stays(dag, two):
    with (
        hold_versions(two.folder, [(DAYS[0], 1)], "an evaluation"),
        pytest.raises(AirflowFailException, match="an evaluation"),
    ):
        retire(dag)
    with pytest.raises(AirflowFailException, match="started"):
        retire(dag, user=None)
    assert two.folder.generations(DAYS[0]) == [1]


def test_a_dry_run_that_is_refused_leaves_its_result_and_its_reason(dag, two):
    TOLD.clear()
    with (
        hold_versions(two.folder, [(DAYS[0], 1)], "an evaluation"),
        pytest.raises(AirflowFailException),
    ):
        retire(dag, dry_run=True)
    told, failure = TOLD
    assert "an evaluation" in told["lines"][-1]
    assert (failure["error"], "untag" in failure["message"]) == ("ConflictError", False)
    assert two.folder.generations(DAYS[0]) == [1]


def test_a_tag_that_keeps_an_interval_is_advised_to_be_removed(dag, two):
    """The page of the run links the forms of the commands in its message."""
    apply_change(two.folder, propose_tag(two.folder, DAYS[0], "prod", Decision.now("a release")))
    for dry_run in (True, False):
        TOLD.clear()
        with pytest.raises(AirflowFailException):
            retire(dag, dry_run=dry_run)
        assert "trainfeed untag clicks TAG" in TOLD[-1]["message"]
    assert two.folder.generations(DAYS[0]) == [1]

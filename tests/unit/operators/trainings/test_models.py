"""Tasks around a model: what they call, and that a cleared task changes nothing again."""

from __future__ import annotations

from datetime import timedelta

import pytest
from airflow.sdk.exceptions import AirflowFailException

from operators.links import LINKS, ModelLink
from operators.trainings import ChangeProdOperator, EvaluateModelOperator, PromoteModelOperator
from tests.unit.operators.conftest import STARTED_AT
from tests.unit.training.models.conftest import finished, folder, root
from trainfeed.errors import GateError
from trainfeed.training.models import PROD, current, history, promote, register

__all__ = ["finished", "folder", "root"]

JOB = {"job": "clicks-2026-01-05-abc", "verdict": "ran"}
MODEL = {"job": JOB["job"], "version": "v0002", "gate": {"note": "not compared"}}


@pytest.fixture
def models(folder, finished, connections, set_connection, root):
    """Two versions; prod points to the first."""
    set_connection("cephfs_default", extra={"path": str(root)})
    for number in (1, 2):
        register(folder, finished(number))
    promote(folder, PROD, 1, "first")
    return folder


def change(make_context, run="run 1", user="ada", after=STARTED_AT, **params):
    form = {"action": "promote", "model": "clicks", "version": None, "why": "to see", **params}
    context = make_context("manual", started_at=after)
    context["params"] = form
    context["dag_run"].run_id = run
    context["dag_run"].triggering_user_name = user
    return ChangeProdOperator(task_id="change").execute(context)


def test_the_job_of_the_run_is_evaluated_for_the_interval_of_the_run(
    clicks, make_context, monkeypatch
):
    calls = []

    def evaluate(spec, env, interval, job):
        calls.append((spec.name, env.root, interval, job))
        return MODEL

    monkeypatch.setattr("trainfeed.training.promotion.evaluate", evaluate)
    task = EvaluateModelOperator(task_id="evaluate", dataset="clicks", job=JOB)
    assert task.execute(make_context("asset_triggered", partition_key="2026-01-05")) == MODEL
    assert calls == [("clicks", "/pfs/dataset", "2026-01-05", JOB["job"])]


def test_the_job_of_a_tag_is_evaluated_for_the_last_interval_of_the_tag(
    clicks, make_context, monkeypatch
):
    calls = []
    monkeypatch.setattr(
        "trainfeed.training.promotion.evaluate", lambda *values: calls.append(values[2]) or MODEL
    )
    job = JOB | {"intervals": ["2026-01-01", "2026-01-02"]}
    context = make_context("manual", params={"window_start": None, "tag": "prod"})
    EvaluateModelOperator(task_id="evaluate", dataset="clicks", job=job).execute(context)
    assert calls == ["2026-01-02"]


def test_a_closed_gate_fails_at_once_and_leaves_its_report(clicks, make_context, monkeypatch):
    def evaluate(*_):
        raise GateError("auc is 0.4, below min 0.5", report={"gate": {"passed": False}})

    monkeypatch.setattr("trainfeed.training.promotion.evaluate", evaluate)
    context = make_context("asset_triggered", partition_key="2026-01-05")
    with pytest.raises(AirflowFailException, match=r"below min 0\.5"):
        EvaluateModelOperator(task_id="evaluate", dataset="clicks", job=JOB).execute(context)
    assert context["ti"].xcoms["failure"]["report"] == {"gate": {"passed": False}}


def test_the_job_is_the_request_of_its_promotion(clicks, make_context, monkeypatch, caplog):
    calls, verdicts = [], ["promoted", "unchanged"]

    def promote(spec, env, version, why, *, request, who, account):
        calls.append((version, why, request, who, account))
        note = "prod points to v0003"
        return {"version": version, "prod": "v0003", "verdict": verdicts.pop(), "note": note}

    monkeypatch.setattr("trainfeed.training.promotion.promote", promote)
    task = PromoteModelOperator(task_id="promote", dataset="clicks", model=MODEL)
    assert task.execute(make_context())["prod"] == "v0003"
    why = f"job {JOB['job']} passed its gate: not compared"
    run = "Airflow run some_dag/run 1"
    assert calls.pop() == ("v0002", why, f"job {JOB['job']}", None, run)
    task.answer = {"responded_by_user": {"id": "7", "name": "ana"}}
    task.execute(make_context())
    assert calls.pop() == ("v0002", why, f"job {JOB['job']}", "ana", run)
    assert [each.getMessage() for each in caplog.records if each.levelname == "WARNING"] == [
        "prod is left as it is, and is not v0002: prod points to v0003",
        "v0002 was promoted, and meanwhile prod points to v0003",
    ]


def test_the_form_promotes_and_rolls_back_and_a_cleared_task_changes_nothing(models, make_context):
    for verdict in ("promoted", "unchanged"):
        report = change(make_context, version="v0002")
        assert (report["prod"], report["verdict"]) == ("v0002", verdict)
    for verdict in ("rolled back", "unchanged"):
        report = change(make_context, "run 2", action="rollback", version="v0002")
        assert (report["prod"], report["verdict"]) == ("v0001", verdict)
    assert change(make_context, version="v0002")["verdict"] == "unchanged"
    assert current(models, PROD).name == "clicks/v0001"
    assert len(history(models, PROD)) == 3


def test_the_history_of_prod_names_the_user_and_the_run(models, make_context):
    change(make_context, version="v0002")
    change(make_context, "run 2", user="ben", action="rollback")
    named = [(each.by, each.account) for each in history(models, PROD)[1:]]
    runs = [f"Airflow run some_dag/{run}" for run in ("run 1", "run 2")]
    assert named == [("ada", runs[0]), ("ben", runs[1])]


def test_a_run_without_a_person_changes_nothing(models, make_context):
    with pytest.raises(AirflowFailException, match="a user of Airflow started"):
        change(make_context, version="v0002", user=None)
    assert len(history(models, PROD)) == 1


def test_a_run_that_was_deleted_and_made_again_with_its_id_makes_its_change(models, make_context):
    change(make_context, version="v0002")
    again = change(make_context, version="v0001", after=STARTED_AT + timedelta(hours=1))
    assert (again["prod"], again["verdict"]) == ("v0001", "promoted")


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({}, "expected a version to promote"),
        ({"model": "klicks", "version": "v0001"}, "did you mean 'clicks'"),
        ({"action": "rollback", "version": "v0002"}, "it points to v0001; nothing was changed"),
        ({"action": "rollback"}, "no version that prod pointed to before"),
        ({"version": "v0009"}, "is not a model"),
        ({"version": "v0001", "dry_run": True}, "got 'dry_run'"),
    ],
)
def test_what_cannot_be_done_fails_at_once_and_changes_nothing(models, make_context, form, message):
    with pytest.raises(AirflowFailException, match=message):
        change(make_context, **form)
    assert len(history(models, PROD)) == 1


def test_a_root_that_nobody_made_is_refused(tmp_path, connections, set_connection, make_context):
    set_connection("cephfs_default", extra={"path": str(tmp_path / "none")})
    with pytest.raises(AirflowFailException, match="to name a publication root"):
        change(make_context, version="v0001")


def test_the_tasks_link_to_what_they_say():
    assert any(isinstance(link, ModelLink) for link in LINKS)

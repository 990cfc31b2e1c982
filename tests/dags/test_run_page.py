"""The page of a run in Airflow: who may see it, and that it shows text of reports as text."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime
from urllib.parse import quote

import airflow.models
import pytest
from airflow import settings
from airflow.models.base import Base
from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session

with warnings.catch_warnings():
    # Airflow's web application imports a test client, which is about to move.
    warnings.simplefilter("ignore", DeprecationWarning)
    warnings.simplefilter("ignore", UserWarning)
    from airflow.api_fastapi.app import create_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from fastapi.routing import APIRoute
    from fastapi.testclient import TestClient

    from plugins import _run_page

BUILD_RUN = "manual__2026-01-02T03:04:05+00:00"
TRAIN_RUN = "asset_triggered__2026-01-03T03:04:05+00:00"
HOSTILE = "<script>alert('{{ 7*7 }}')</script>"
REPORTS = {
    ("build.clicks", BUILD_RUN, "publish"): {
        "interval": "2026-01-02",
        "generation": "g0001",
        "path": HOSTILE,
    },
    ("train.clicks", TRAIN_RUN, "train"): {"job": "clicks-1", "metrics": {"auc": 0.75}},
}


def address(dag_id, run_id):
    return f"/dags/{quote(dag_id, safe='')}/runs/{quote(run_id, safe='')}"


PAGE = address("build.clicks", BUILD_RUN)


@pytest.fixture(scope="session")
def auth_manager():
    airflow.models.import_all_models()
    Base.metadata.create_all(settings.engine)
    with create_session() as session:
        session.merge(DagBundleModel(name="dags"))
        now = datetime(2026, 1, 3, tzinfo=UTC)
        for interval, run_id in (("2026-01-02", TRAIN_RUN), ("2026-01-01", "another")):
            session.add(
                DagRun(
                    dag_id="train.clicks",
                    run_id=run_id,
                    run_type="asset_triggered",
                    run_after=now,
                    partition_key=interval,
                )
            )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "a secret of tests" * 4)
        yield create_auth_manager()
    settings.dispose_orm()


@pytest.fixture
def client(auth_manager, monkeypatch):
    """A browser; reports are those of ``REPORTS``."""
    monkeypatch.setattr(
        _run_page, "_report", lambda _, dag_id, run_id, task: REPORTS.get((dag_id, run_id, task))
    )
    with TestClient(_run_page.app) as browser:
        yield browser


@pytest.fixture
def log_in(auth_manager):
    def as_role(role):
        user = SimpleAuthManagerUser(username="somebody", role=role)
        return {"Authorization": f"Bearer {auth_manager.generate_jwt(user)}"}

    return as_role


def test_nobody_sees_a_page_without_logging_in(client):
    routes = [route for route in _run_page.app.routes if isinstance(route, APIRoute)]
    assert [route.path for route in routes] == ["/dags/{dag_id}/runs/{run_id}"]
    assert len(routes) == len(_run_page.app.routes)
    for headers in ({}, {"Authorization": "Bearer no.such.token"}, {"Cookie": "_token=x"}):
        answer = client.get(PAGE, headers=headers)
        assert answer.status_code in {401, 403}, headers
        assert "g0001" not in answer.text


def test_a_route_that_somebody_adds_is_closed_too(client):
    _run_page.app.add_api_route("/new", lambda: "g0001")
    try:
        assert client.get("/new").status_code == 401
    finally:
        _run_page.app.routes.pop()


def test_a_user_without_rights_sees_nothing(client, log_in):
    answer = client.get(PAGE, headers=log_in(None))
    assert (answer.status_code, answer.json()) == (403, {"detail": "Forbidden"})


def test_a_viewer_sees_the_version_and_the_jobs_of_its_interval(client, log_in):
    page = client.get(PAGE, headers=log_in("viewer"))
    assert page.status_code == 200
    for shown in ("<h2>Version</h2>", "g0001", "<h2>Training job</h2>", "clicks-1", "0.75"):
        assert shown in page.text
    assert "another" not in page.text


@pytest.mark.parametrize("is_paused", [True, False])
def test_a_paused_training_is_said_to_be_paused(client, log_in, is_paused):
    with create_session() as session:
        session.merge(DagModel(dag_id="train.clicks", bundle_name="dags", is_paused=is_paused))
    page = client.get(PAGE, headers=log_in("viewer"))
    assert ("<strong>train.clicks is paused:</strong>" in page.text) is is_paused


def test_the_link_to_a_training_leads_to_its_page(client, log_in):
    page = client.get(PAGE, headers=log_in("viewer")).text
    (link,) = (part.partition('"')[0] for part in page.split('href="')[1:])
    job = client.get(f"{PAGE.rpartition('/')[0]}/{link}", headers=log_in("viewer"))
    assert "clicks-1" in job.text
    assert "g0001" not in job.text


def test_jobs_of_a_dag_that_a_user_may_not_see_are_left_out(client, log_in, monkeypatch):
    def is_authorized_dag(*_, details, **__):
        return details.id == "build.clicks"

    headers = log_in("viewer")
    manager = "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager"
    monkeypatch.setattr(f"{manager}.is_authorized_dag", is_authorized_dag)
    page = client.get(PAGE, headers=headers)
    assert "g0001" in page.text
    assert "Training job" not in page.text
    assert client.get(address("train.clicks", TRAIN_RUN), headers=headers).status_code == 403


def test_what_reports_say_is_shown_as_text_and_runs_nothing(client, log_in):
    page = client.get(PAGE, headers=log_in("viewer"))
    assert "&lt;script&gt;alert(&#x27;{{ 7*7 }}&#x27;)&lt;/script&gt;" in page.text
    assert "<script" not in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'none';")


@pytest.mark.parametrize("dag_id", ["convert", "build.views", "~", "../../etc/passwd", HOSTILE])
def test_a_run_of_anything_else_shows_nothing(client, log_in, dag_id):
    answer = client.get(address(dag_id, BUILD_RUN), headers=log_in("viewer"))
    assert answer.status_code in {200, 404}
    assert "script" not in answer.text
    assert answer.status_code == 404 or "has published no version" in answer.text

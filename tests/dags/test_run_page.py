"""The page of a run in Airflow: who may see it, and that it shows text of reports as text."""

from __future__ import annotations

import importlib.util
import re
import shutil
import warnings
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, urljoin

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

    from plugins import _run_facts, _run_page
    from plugins._run_facts import Failure, Stage

BUILD_RUN = "manual__2026-01-02T03:04:05+00:00"
TRAIN_RUN = "asset_triggered__2026-01-03T03:04:05+00:00"
HOSTILE = "<script>alert('{{ 7*7 }}')</script>"
MESSAGE = "clicks/2026-01-02 is not published: quarantine_ratio is 0.2\nquarantined: 408 bad_label"
EXAMPLE = {"source": "logs:a", "offset": 1141, "message": "'six'", "value": HOSTILE}
ACCOUNT = {
    "counts": {"read": 2000, "samples": 1592, "quarantined": 408, "filtered": 3},
    "reasons": [{"reason": "bad_label", "records": 408, "examples": [EXAMPLE]}],
    "filtered": {"bot": 3},
    "gates": [
        {
            "name": "quarantine_ratio",
            "check": "quarantine_ratio",
            "field": None,
            "min": None,
            "max": 0.05,
            "allowed": "max 0.05",
            "severity": "block",
            "value": 0.204,
            "passed": False,
            "because": "408 of 2000 records quarantined",
        }
    ],
    "quarantine": "file:///work/spill/p1",
    "command": "trainfeed quarantine show clicks/2026-01-02 --plan p1",
}
VERSION = {
    **ACCOUNT,
    "version": {"generation": "g0002", "path": HOSTILE, "content_digest": "c0ffee"},
    "splits": {"train": 1400, "eval": 192},
    "sources": [
        {"source": "logs:a", "start": 0, "end": 9, "unit": "bytes", "records": 3, "bytes": 8}
    ],
    "generations": [
        {"generation": "g0002", "this": True, "samples": 1592, "why": "label was off by one"},
        {"generation": "g0001", "this": False, "samples": 1500, "why": "first build"},
    ],
    "statistics": {"label": {"count": 1592, "nulls": 0, "min": 0, "max": 9, "mean": 4.5}},
    "totals": {"sources": 5000, "fields": 1, "reasons": 1},
}
GATE = {
    "passed": True,
    "note": "v0002 was evaluated on the same data",
    "metrics": [
        {
            "metric": "auc",
            "value": 0.75,
            "min": 0.5,
            "promoted": 0.7,
            "max_worse": 0.1,
            "passed": True,
        }
    ],
}
PLAN = {"dataset": "clicks", "interval": "2026-01-02", "verdict": "build"}
REPORTS = {
    ("build.clicks", BUILD_RUN, "plan", "plan"): PLAN,
    ("build.clicks", BUILD_RUN, "publish", "return_value"): {
        "interval": "2026-01-02",
        "generation": "g0001",
        "verdict": "built",
        "path": HOSTILE,
    },
    ("train.clicks", TRAIN_RUN, "train", "return_value"): {
        "job": "clicks-1",
        "metrics": {"auc": 0.75},
    },
    ("train.clicks", TRAIN_RUN, "evaluate", "return_value"): {
        "model": "click_model",
        "version": "v0003",
        "path": HOSTILE,
        "data": ["2026-01-02/g0007"],
        "gate": GATE,
    },
    ("train.clicks", TRAIN_RUN, "promote", "return_value"): {
        "prod": "v0003",
        "verdict": "promoted",
    },
}
VERSION_KEY = ("build.clicks", BUILD_RUN, "publish", "version_report")


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
def reports():
    """What tasks left, by DAG, run, task and key."""
    return dict(REPORTS)


@pytest.fixture
def run(monkeypatch):
    """Say in which states the tasks of a run are, and which of them failed."""

    def set_run(stages=(), failures=()):
        monkeypatch.setattr(_run_facts, "stages", lambda *_: tuple(stages))
        monkeypatch.setattr(_run_facts, "failures", lambda *_: tuple(failures))

    set_run()
    return set_run


@pytest.fixture
def client(auth_manager, monkeypatch, reports, run):
    """A browser; reports are those of ``reports``."""

    def xcom(_, dag_id, run_id, task_id, *, key="return_value", map_index=-1):
        return reports.get((dag_id, run_id, task_id, key), {})

    monkeypatch.setattr(_run_facts, "xcom", xcom)
    with TestClient(_run_page.app) as browser:
        yield browser


@pytest.fixture
def look(client, log_in):
    """The page of the run, as a viewer sees it."""
    return lambda: client.get(PAGE, headers=log_in("viewer")).text


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
    assert "&lt;script&gt;alert(&#39;{{ 7*7 }}&#39;)&lt;/script&gt;" in page.text
    assert "<script" not in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'none';")


def test_plugins_that_were_copied_find_their_template(tmp_path):
    copy = shutil.copytree(Path(_run_page.__file__).parent, tmp_path / "plugins")
    template = copy / "run_page.html"
    template.write_text(template.read_text().replace("no data set", "no data set at all"))
    spec = importlib.util.spec_from_file_location("copied_run_page", copy / "_run_page.py")
    copied = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copied)
    assert "no data set at all to show" in copied.page(_run_facts.RunFacts("tag", "a run"))


def test_a_cell_without_a_value_is_empty_by_which_a_phone_hides_it(look, reports):
    reports[VERSION_KEY] = {**VERSION, "generations": [{"generation": "g0001", "why": ""}]}
    assert re.search(r'<tr><td data-c="generation">g0001<td><td><td[^>]*>.*<td></table>', look())


@pytest.mark.parametrize("dag_id", ["convert", "build.views", "~", "../../etc/passwd", HOSTILE])
def test_a_run_of_anything_else_shows_nothing(client, log_in, dag_id):
    answer = client.get(address(dag_id, BUILD_RUN), headers=log_in("viewer"))
    assert answer.status_code in {200, 404}
    assert "script" not in answer.text
    assert answer.status_code == 404 or "no data set to show" in answer.text


def failed(task_id="check", state="failed", **told):
    return Failure(task_id, -1, state, told)


def test_a_failed_run_says_which_task_failed_and_why(look, reports, run):
    del reports["build.clicks", BUILD_RUN, "publish", "return_value"]
    run(
        [Stage("plan", {"success": 1}), Stage("check", {"failed": 1})],
        [failed(error="GateError", message=MESSAGE, report=ACCOUNT)],
    )
    page = look()
    for shown in (
        "Task check failed. Nothing was published by this run.",
        "Why check failed",
        "GateError",
        "quarantine_ratio is 0.2\nquarantined: 408 bad_label",
        "408 of 2000 records quarantined",
        "max 0.05",
        "bad_label",
        "logs:a offset 1141",
        "trainfeed quarantine show clicks/2026-01-02 --plan p1",
        "file:///work/spill/p1",
        "clicks / 2026-01-02",
    ):
        assert shown in page, shown
    assert "<script" not in page
    assert "<h2>Version</h2>" not in page


def test_a_spark_application_shows_how_far_it_is(look, reports, run):
    del reports["build.clicks", BUILD_RUN, "publish", "return_value"]
    run([Stage("plan", {"success": 1}), Stage("spark", {"running": 1})])
    assert "At task spark: the application starts." in look()
    told = {"progress": f"preprocess 3 of 7 tasks {HOSTILE}"}
    reports["build.clicks", BUILD_RUN, "spark", "progress"] = told
    page = look()
    assert "At task spark: preprocess 3 of 7 tasks &lt;script" in page
    assert "<script" not in page
    run([Stage("plan", {"success": 1}), Stage("spark", {"up_for_retry": 1})])
    assert "preprocess 3 of 7" not in look()


def test_what_a_spark_application_took_stands_on_the_page(look, reports):
    assert "Spark application" not in look()
    key = ("build.clicks", BUILD_RUN, "spark", "return_value")
    reports[key] = {"verdict": "built", "groups": 7, "build_s": 8.25, "shuffle_bytes": 61440}
    page = look()
    for shown in ("<h2>Spark application</h2>", "8.25", "bytes shuffled", "61,440"):
        assert shown in page
    reports[key] = {"verdict": "adopted", "groups": 7, "build_s": 0.0}
    assert "Spark application" not in look()


def test_what_to_do_about_a_failed_gate_is_said_in_sentences(look, reports, run):
    del reports["build.clicks", BUILD_RUN, "publish", "return_value"]
    message = f"{MESSAGE}\nnothing was published\nfix the source"
    run([], [failed(error="GateError", message=message, report=ACCOUNT)])
    assert "<p>Nothing was published. Fix the source.</p>" in look()


def test_a_broken_gate_stands_above_those_that_hold(look, reports, run):
    del reports["build.clicks", BUILD_RUN, "publish", "return_value"]
    passed = {"check": "count", "allowed": "min 5", "value": 7, "passed": True}
    gates = [passed, *ACCOUNT["gates"]]
    run([], [failed(error="GateError", message=MESSAGE, report={**ACCOUNT, "gates": gates})])
    page = look()
    assert page.index(">failed<") < page.index(">passed<")


def test_the_form_for_a_failed_gate_stands_above_the_tables(look, reports, run):
    del reports["build.clicks", BUILD_RUN, "publish", "return_value"]
    message = f"{MESSAGE}\nnothing was published\nlet it pass: trainfeed waive clicks/2026-01-02"
    run([], [failed(error="GateError", message=message, report=ACCOUNT)])
    page = look()
    assert page.index("quarantine_ratio is 0.2") < page.index(">waive.clicks<")
    assert page.index(">waive.clicks<") < page.index("<h2>Gates</h2>")


def test_waived_gates_stand_with_who_and_why_as_text(look, reports):
    waiver = {"gates": ACCOUNT["gates"], "who": HOSTILE, "account": "builder"}
    waiver |= {"why": "a storm", "until": "2026-12-31"}
    reports[VERSION_KEY] = {**VERSION, "waivers": [waiver]}
    page = look()
    assert "<h2>Waived by people</h2>" in page
    assert "a storm" in page
    assert ">builder<" in page
    assert ">failed, waived<" in page
    assert ">failed<" not in page
    assert "<script" not in page


def test_a_quarantined_record_without_bytes_is_said_to_have_none(look, reports):
    reasons = [{"reason": "no_tab", "records": 1, "examples": [{**EXAMPLE, "value": ""}]}]
    reports[VERSION_KEY] = {**VERSION, "reasons": reasons}
    assert ">no bytes<" in look()


@pytest.mark.parametrize(
    ("dag_id", "advice", "forms"),
    [
        ("build.clicks", "let it pass: trainfeed waive clicks/2026-01-02", ["waive.clicks"]),
        ("build.clicks", "take it back: trainfeed restore clicks/2026-01-02/g0001", ["withdraw"]),
        (
            "build.clicks",
            "trainfeed restore I, or trainfeed build clicks --interval I --rebuild WHY",
            ["withdraw", "build.clicks"],
        ),
        ("build.clicks", "damaged; trainfeed repair clicks/2026-01-02", ["repair"]),
        ("train.clicks", "it is: trainfeed build clicks --interval I", ["build.clicks"]),
        ("withdraw", "to move it: trainfeed tag clicks RANGE prod", ["tag"]),
        ("build.clicks", "trainfeed status clicks; trainfeed quarantine show clicks", []),
        ("build.clicks", HOSTILE, []),
    ],
)
def test_a_failed_run_links_the_forms_of_what_its_message_advises(  # noqa: PLR0917
    client, log_in, reports, run, dag_id, advice, forms
):
    run([], [failed(error="ConflictError", message=f"expected this\nnothing is; {advice}")])
    place = address(dag_id, BUILD_RUN)
    page = client.get(place, headers=log_in("viewer")).text
    links = [part.partition('"')[0] for part in page.split('href="')[1:]]
    found = [urljoin(f"http://h/air/trainfeed{place}", link) for link in links]
    assert [each for each in found if "/trainfeed/" not in each] == [
        f"http://h/air/dags/{form}" for form in forms
    ]
    if forms and dag_id != "withdraw":
        assert "Data set: clicks" in page


FORM_TOLD = {
    "target": "clicks/2026-01-02",
    "lines": ["clicks/2026-01-02/g0001 was withdrawn by ana: wrong", f"tag {HOSTILE} names it"],
}


@pytest.mark.parametrize("dag_id", ["withdraw", "waive.clicks"])
def test_a_run_of_a_form_tells_its_result(client, log_in, reports, run, dag_id):
    run([Stage("withdraw", {"success": 1})])
    reports[dag_id, BUILD_RUN, "withdraw", "told"] = FORM_TOLD
    page = client.get(address(dag_id, BUILD_RUN), headers=log_in("viewer")).text
    assert "<h1>clicks/2026-01-02 " in page
    assert "was withdrawn by ana: wrong" in page
    assert "tag &lt;script&gt;" in page
    assert "<script" not in page
    assert "no data set to show" not in page


def test_a_form_that_failed_tells_why_and_what_it_did(client, log_in, reports, run):
    run(
        [Stage("withdraw", {"failed": 1})], [failed("withdraw", error="E", message="the tag stays")]
    )
    reports["withdraw", BUILD_RUN, "withdraw", "told"] = FORM_TOLD
    page = client.get(address("withdraw", BUILD_RUN), headers=log_in("viewer")).text
    assert page.index("was withdrawn by ana") < page.index("the tag stays")
    assert "Nothing was published" not in page


@pytest.mark.parametrize("told", [{"lines": "no list"}, {"lines": []}, {"target": ["x"]}])
def test_a_report_of_another_shape_is_no_result(client, log_in, reports, run, told):
    run([Stage("tag", {"success": 1})])
    reports["tag", BUILD_RUN, "tag", "told"] = told
    page = client.get(address("tag", BUILD_RUN), headers=log_in("viewer"))
    assert page.status_code == 200
    assert "<h2>Result</h2>" not in page.text


def test_lists_and_numbers_of_reports_are_words_and_no_json(client, log_in, reports):
    key = ("train.clicks", TRAIN_RUN, "train", "return_value")
    versions = [{"interval": "2026-01-01", "generation": "g0001"}]
    reports[key] = {"job": "j", "metrics": {"auc": 0.75}, "versions": versions, "intervals": ["a"]}
    page = client.get(address("train.clicks", TRAIN_RUN), headers=log_in("viewer")).text
    assert "auc 0.75" in page
    assert "interval 2026-01-01, generation g0001" in page
    assert "{&quot;" not in page


def test_a_task_that_was_not_started_has_not_run(look, run):
    run([Stage("check", {"failed": 1}), Stage("publish", {"upstream_failed": 1})])
    page = look()
    assert "publish: not run" in page
    assert "upstream" not in page


def test_the_page_of_a_training_names_its_interval(client, log_in, reports):
    key = ("train.clicks", TRAIN_RUN, "train", "return_value")
    reports[key] = {"job": "clicks-1", "intervals": ["2026-01-01", "2026-01-02"]}
    page = client.get(address("train.clicks", TRAIN_RUN), headers=log_in("viewer")).text
    assert "<h1>clicks / 2026-01-02 " in page


def test_a_run_whose_plan_failed_is_of_the_interval_in_its_note(client, log_in, run):
    with create_session() as session:
        of_day = DagRun(dag_id="build.clicks", run_id="refused", run_type="manual")
        of_day.run_after = datetime(2026, 1, 8, tzinfo=UTC)
        of_day.note = "2026-01-07"
        session.add(of_day)
    run([], [failed("plan", error="WithdrawnError", message="trainfeed restore clicks/2026-01-07")])
    page = client.get(address("build.clicks", "refused"), headers=log_in("viewer")).text
    assert "<h1>clicks / 2026-01-07 " in page
    assert "Interval: 2026-01-07" in page


def test_a_task_that_was_killed_is_named_without_a_message(look, reports, run):
    del reports["build.clicks", BUILD_RUN, "publish", "return_value"]
    run([Stage("preprocess", {"failed": 1, "success": 2})], [failed("preprocess")])
    page = look()
    assert "Why preprocess failed" in page
    assert "The task left no message" in page


def test_a_task_that_will_be_tried_again_says_so(look, reports, run):
    del reports["build.clicks", BUILD_RUN, "publish", "return_value"]
    run([], [failed("ingest", "up_for_retry", error="IngestError", message="brokers are away")])
    page = look()
    assert "brokers are away" in page
    assert "It will be tried again." in page


@pytest.mark.parametrize(
    ("states", "failures", "badge"),
    [
        ({"failed": 1, "running": 2}, [failed("preprocess")], "failed"),
        ({"up_for_retry": 1}, [failed("preprocess", "up_for_retry")], "will be tried again"),
        ({"up_for_retry": 5, "failed": 1}, [failed("preprocess", "up_for_retry")], "failed"),
    ],
)
def test_only_what_a_task_waits_for_is_said_to_come_again(
    look, reports, run, states, failures, badge
):
    del reports["build.clicks", BUILD_RUN, "publish", "return_value"]
    run([Stage("preprocess", states)], failures)
    head = look().partition("<h1>")[2].partition("</h1>")[0]
    assert head.endswith(f'<span class="badge bad">{badge}</span>')


def test_a_running_run_says_at_which_task_it_is(look, reports, run):
    del reports["build.clicks", BUILD_RUN, "publish", "return_value"]
    run([Stage("plan", {"success": 1}), Stage("convert", {"running": 1, "success": 3})])
    page = look()
    assert "At task convert: 1 running, 3 success." in page
    assert "convert 3/4: running" in page


def test_a_run_whose_next_task_waits_does_not_say_that_none_has_started(look, reports, run):
    del reports["build.clicks", BUILD_RUN, "publish", "return_value"]
    run([Stage("plan", {"success": 1}), Stage("ingest", {"queued": 4})])
    page = look()
    assert "Task plan is done" in page
    assert "No task has started yet" not in page


def test_a_published_run_tells_counts_gates_sources_versions_and_statistics(look, reports):
    reports[VERSION_KEY] = VERSION
    page = look()
    for shown in (
        "g0001 is published; readers get it.",
        "2,000",
        "408 of 2000 records quarantined",
        "bad_label",
        "[0, 9) bytes",
        "the first 1 of 5,000",
        "g0002 (this one)",
        "label was off by one",
        "first build",
        "4.5",
        "c0ffee",
        "Filtered",
        "clicks-1",
    ):
        assert shown in page, shown


def test_an_identical_run_says_that_nothing_was_built(look, reports):
    key = ("build.clicks", BUILD_RUN, "publish", "return_value")
    reports[key] = {**reports[key], "verdict": "identical"}
    reports["build.clicks", BUILD_RUN, "plan", "plan"] = {**PLAN, "note": "the topic is gone"}
    page = look()
    assert "was published before from the same inputs, code and lookups" in page
    assert "the topic is gone" in page


def test_a_run_that_kept_an_outdated_version_says_so_and_why(look, reports):
    key = ("build.clicks", BUILD_RUN, "publish", "return_value")
    reports[key] = {**reports[key], "verdict": "kept"}
    note = "g0001 is outdated and kept, nothing is built: spec.seed: 7 → 8"
    reports["build.clicks", BUILD_RUN, "plan", "plan"] = {**PLAN, "verdict": "kept", "note": note}
    page = look()
    assert "was published before, is outdated, and was kept as the run asked" in page
    assert note in page


def test_a_dry_run_shows_what_would_be_done(look, reports):
    del reports["build.clicks", BUILD_RUN, "publish", "return_value"]
    lines = ["dry run of clicks/2026-01-02: nothing was written", "would read 5 offsets"]
    reports["build.clicks", BUILD_RUN, "plan", "plan"] = {**PLAN, "dry_run": True, "lines": lines}
    page = look()
    assert "would read 5 offsets" in page
    assert "no training starts" in page


@pytest.mark.parametrize("hostile", [HOSTILE, 7, None, [], [[]], {"x": HOSTILE}])
def test_a_report_of_another_shape_breaks_no_page_and_runs_nothing(look, reports, run, hostile):
    reports[VERSION_KEY] = {"version": {}, "statistics": {HOSTILE: {}}, "filtered": {HOSTILE: 1}}
    reports["build.clicks", BUILD_RUN, "check", "return_value"] = {"report": hostile}
    run([], [failed(error=hostile, message=hostile)])
    page = look()
    assert "<script" not in page
    assert "Why check failed" in page


def test_a_page_is_bounded_whatever_a_report_holds(look, run):
    run([], [failed(error="E", message="x" * 1_000_000)])
    assert len(look()) < 40_000


def test_an_interval_that_is_left_out_says_so(look, reports):
    del reports["build.clicks", BUILD_RUN, "publish", "return_value"]
    note = "the folder was waited for until 2026-01-04"
    reports["build.clicks", BUILD_RUN, "plan", "plan"] = {
        **PLAN,
        "verdict": "skipped",
        "note": note,
    }
    page = look()
    assert "left out" in page
    assert note in page


def test_an_empty_version_says_why(look, reports):
    of_version = {"empty": True, "empty_because": {"logs:a": "no folder came"}}
    reports[VERSION_KEY] = {**VERSION, "version": of_version}
    assert "The version is empty: logs:a: no folder came." in look()


@pytest.mark.parametrize("reasons", [None, {}])
def test_a_version_with_samples_is_not_called_empty(look, reports, reasons):
    of_version = {"empty": False, "empty_because": reasons}
    reports[VERSION_KEY] = {**VERSION, "version": of_version}
    page = look()
    assert "g0001 is published; readers get it.</p>" in page
    assert "is empty" not in page


def test_trainings_that_do_not_start_are_named(look, reports):
    reports[VERSION_KEY] = VERSION
    key = ("build.clicks", BUILD_RUN, "publish", "return_value")
    told = {"dag": "train.clicks", "state": "paused", "untrained": 3, "caught_up": ["2026-01-01"]}
    reports[key] = {**reports[key], "training": told}
    page = look()
    assert "train.clicks was paused when this run ended, so it started no training." in page
    assert "Published intervals that waited for one: 3." in page
    assert "were started as well: 2026-01-01." in page
    assert page.index("were started as well") < page.index("<h2>Version</h2>")


def test_the_page_of_a_training_shows_gate_model_and_promotion(client, log_in):
    page = client.get(address("train.clicks", TRAIN_RUN), headers=log_in("viewer")).text
    for said in (
        "Model click_model/v0003.",
        "Gate of the model",
        "min 0.5, worse by at most 0.1",
        "v0002 was evaluated on the same data",
        "2026-01-02/g0007",
        "promoted",
    ):
        assert said in page
    assert HOSTILE not in page


MADE = ("train.clicks", TRAIN_RUN, "evaluate", "return_value")
PROMOTED = ("train.clicks", TRAIN_RUN, "promote", "return_value")


@pytest.mark.parametrize(
    ("task", "without", "said"),
    [
        ("upload_model", (), "a result; click_model/v0003 was promoted by this run."),
        ("upload_model", (PROMOTED,), "a result, click_model/v0003; no model was promoted"),
        ("promote", (PROMOTED,), "a result, click_model/v0003; its promotion left no report."),
        ("evaluate", (MADE, PROMOTED), "a result; no model was promoted by this run."),
    ],
)
def test_a_training_that_failed_says_how_far_it_came(  # noqa: PLR0917
    client, log_in, reports, run, task, without, said
):
    for key in without:
        del reports[key]
    run([], [failed(task, error="StorageError", message="refused")])
    page = client.get(address("train.clicks", TRAIN_RUN), headers=log_in("viewer")).text
    assert f"Task {task} failed. The training has {said}" in page


def test_a_model_that_was_not_given_to_prod_is_not_said_to_be_promoted(
    client, log_in, reports, run
):
    reports[PROMOTED] = {"prod": "v0004", "verdict": "unchanged"}
    run([], [failed("upload_model", error="StorageError", message="refused")])
    page = client.get(address("train.clicks", TRAIN_RUN), headers=log_in("viewer")).text
    assert "has a result, click_model/v0003; this run left prod as it was." in page


def test_positions_are_digits_and_counts_have_commas(look, reports):
    sources = [
        {"source": "t[0]", "start": 1141000, "end": 12345678, "unit": "offsets", "records": 1234}
    ]
    reports[VERSION_KEY] = {**VERSION, "sources": sources}
    page = look()
    assert "[1141000, 12345678) offsets" in page
    assert "1,234" in page


def test_the_page_of_a_build_shows_the_model_of_its_training(client, log_in):
    page = client.get(address("build.clicks", BUILD_RUN), headers=log_in("viewer")).text
    assert "click_model" in page
    assert "Gate of the model" in page


def test_a_closed_gate_is_shown_beside_the_message(look, reports, run):
    broken = {**GATE, "metrics": [{"metric": "auc", "value": 0.4, "min": 0.5, "passed": False}]}
    message = "auc is 0.4, below min 0.5"
    run([], [failed("evaluate", error="GateError", message=message, report={"gate": broken})])
    page = look()
    assert "auc is 0.4, below min 0.5" in page
    assert ">failed<" in page


def test_a_declined_training_says_why(look, reports):
    key = ("build.clicks", BUILD_RUN, "publish", "return_value")
    told = {"dag": "train.clicks", "state": "declined", "why": "training: last, and …"}
    reports[key] = {**reports[key], "training": told}
    assert "No training of this interval starts: training: last, and …." in look()


UPLOADS_RUN = "scheduled__2026-01-03T03:15:00+00:00"


@pytest.mark.parametrize("is_failed", [False, True])
def test_a_run_of_uploads_says_what_it_started_what_it_left_and_which_file_is_refused(
    client, log_in, reports, run, is_failed
):
    reports["uploads.clicks", UPLOADS_RUN, "check", "uploads"] = {
        "announced": [3, 4],
        "builds": ["uploads__2026-01-02__4"],
        "newer_than_version": ["2026-01-01"],
        "refused": 1,
    }
    refused = "refused uploads: 1, nothing of them is used; 2026-01-02/a.csv: line 2"
    run((), [failed("settle", error="FormatError", message=refused)] if is_failed else ())
    page = client.get(address("uploads.clicks", UPLOADS_RUN), headers=log_in("viewer")).text
    assert "Builds that were asked for: 1." in page
    assert "newer uploads stay as they are: 2026-01-01. To take the uploads, trigger" in page
    assert ("2026-01-02/a.csv: line 2" in page) == is_failed
    assert "No job is finished" not in page


@pytest.mark.parametrize(
    "report", [{}, {"announced": [3, 4], "builds": ["uploads__2026-01-02__4"]}]
)
def test_a_check_of_uploads_that_failed_has_asked_for_nothing(client, log_in, reports, run, report):
    reports["uploads.clicks", UPLOADS_RUN, "check", "uploads"] = report
    run((), [failed("check", error="StorageError", message="refused")])
    page = client.get(address("uploads.clicks", UPLOADS_RUN), headers=log_in("viewer")).text
    assert "Task check failed. No build was asked for by this run." in page
    assert "No job is finished" not in page


def test_numbers_of_receipts_are_digits(client, log_in, reports):
    report = {"announced": [1234567, 1234568], "builds": []}
    reports["uploads.clicks", UPLOADS_RUN, "check", "uploads"] = report
    page = client.get(address("uploads.clicks", UPLOADS_RUN), headers=log_in("viewer")).text
    assert "1234567 to 1234568" in page


@pytest.mark.parametrize("odd", [7, "text", {"a": 1}, [{"b": HOSTILE}], None])
def test_a_report_of_uploads_of_another_shape_breaks_no_page(client, log_in, reports, odd):
    reports["uploads.clicks", UPLOADS_RUN, "check", "uploads"] = {
        "builds": odd,
        "newer_than_version": odd,
        "announced": odd,
    }
    answer = client.get(address("uploads.clicks", UPLOADS_RUN), headers=log_in("viewer"))
    assert answer.status_code == 200
    assert HOSTILE not in answer.text

"""Publishing announces its own interval, and those whose event Airflow has dropped."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import pytest
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowRescheduleException, AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse
from airflow.sdk.execution_time.context import OutletEventAccessors

from operators import training_starts as catch_up
from operators.stages import RecordIOToCephFSOperator
from operators.trainings import TrainingJobOperator
from tests.unit.operators.stages.test_stages import PLAN, REPORT
from trainfeed.errors import WindowIncompleteError
from trainfeed.versions import DatasetFolder, TrainingMarks

ASSET = Asset(name="clicks", uri="trainfeed://clicks")
OWN = REPORT.summary.interval


@pytest.fixture
def folder(clicks, set_connection, tmp_path):
    """The published data set; its training began with it."""
    (tmp_path / "root").mkdir()
    set_connection("cephfs_default", extra={"path": str(tmp_path / "root")})
    folder = DatasetFolder(tmp_path / "root", "clicks")
    TrainingMarks(folder).begin(OWN)
    return folder


@pytest.fixture
def run(monkeypatch, folder, make_context):
    """Publish an interval as a task of a run; gives the report and the event."""
    monkeypatch.setattr("trainfeed.pipeline.publish.publish", lambda *_: REPORT)

    def execute(name="run 1", *, paused=False, wish="missed", verdict="build", **plan):
        put(folder, OWN)
        context = make_context(params={"catch_up": wish})
        context["dag_run"].run_id = name
        context["ti"].paused = paused
        context["outlet_events"] = OutletEventAccessors()
        operator = RecordIOToCephFSOperator(
            task_id="publish",
            dataset="clicks",
            plan={**PLAN, "verdict": verdict, **plan},
            training_dag_id="train.clicks",
            outlets=[ASSET],
        )
        return operator.execute(context), context["outlet_events"][ASSET]

    return execute


def put(folder, *names, generation=1):
    for name in names:
        path = folder.version(name, generation)
        path.mkdir(parents=True, exist_ok=True)
        (path / "MANIFEST.json").touch()


@pytest.mark.parametrize("verdict", ["build", "identical"])
def test_every_published_interval_that_no_training_has_seen_gets_an_event(run, folder, verdict):
    put(folder, "2026-01-02", "2026-01-03", "2026-01-09")
    TrainingMarks(folder).see("2026-01-03")
    report, event = run(verdict=verdict)
    assert event.partition_keys == {"2026-01-02", OWN, "2026-01-09"}
    assert report["training"] == {
        "dag": "train.clicks",
        "state": "listens",
        "untrained": 3,
        "caught_up": ["2026-01-02", "2026-01-09"],
        "left": 0,
    }


def test_an_event_of_several_intervals_speaks_of_each_and_of_one_as_before(run, folder):
    _, event = run()
    assert event.extra["generation"] == "g0001"
    put(folder, "2026-01-02", generation=2)
    _, event = run()
    assert event.extra == {"generations": {"2026-01-02": "g0002", OWN: "g0001"}}


def test_while_the_training_is_paused_only_the_own_event_is_sent_and_the_log_warns(
    run, folder, caplog
):
    put(folder, "2026-01-02")
    with caplog.at_level(logging.WARNING):
        report, event = run(paused=True)
    assert event.partition_keys == {OWN}
    assert (report["training"]["state"], report["training"]["untrained"]) == ("paused", 2)
    assert (
        "train.clicks is paused, so Airflow drops the event: no training of 2026-01-05/g0001"
        " starts; 2 published intervals wait for one: 2026-01-02, 2026-01-05; switch train.clicks"
        " on: the next run of build.clicks starts them"
    ) in caplog.text


def test_what_was_dropped_while_paused_is_sent_by_the_next_run_once(run, folder):
    put(folder, "2026-01-02")
    run("run 1", paused=True)
    assert run("run 2")[1].partition_keys == {"2026-01-02", OWN}
    put(folder, "2026-01-06")
    assert run("run 3")[1].partition_keys == {OWN, "2026-01-06"}


def test_a_run_whose_try_died_before_its_event_sends_all_of_it_again(run, folder):
    put(folder, "2026-01-02")
    for _ in range(2):
        assert run("run 1")[1].partition_keys == {"2026-01-02", OWN}


def test_a_bounded_number_is_caught_up_at_once_and_the_rest_by_the_next_runs(
    run, folder, monkeypatch
):
    monkeypatch.setattr(catch_up, "CATCH_UP_LIMIT", 2)
    put(folder, *(f"2026-01-1{n}" for n in range(5)))
    seen = []
    for number in range(3):
        report, event = run(f"run {number}")
        assert len(event.partition_keys - {OWN}) <= 2
        assert report["training"]["left"] == 5 - len(report["training"]["caught_up"])
        seen += report["training"]["caught_up"]
    assert seen == [f"2026-01-1{n}" for n in range(5)]


def test_versions_older_than_the_training_are_sent_only_when_asked(run, folder):
    put(folder, "2026-01-02")
    marks = TrainingMarks(folder)
    marks.end()
    marks.begin(OWN)
    assert run("run 1")[1].partition_keys == {OWN}
    assert run("run 2", wish="all")[1].partition_keys == {OWN, "2026-01-02"}


def test_a_run_may_ask_for_its_own_training_alone(run, folder):
    put(folder, "2026-01-02")
    report, event = run(wish="none")
    assert event.partition_keys == {OWN}
    assert (report["training"]["caught_up"], report["training"]["left"]) == ([], 1)


def test_an_interval_that_is_no_tick_any_more_is_left_out(run, folder):
    put(folder, "2025-12-31", "2026-01-02T05")
    assert run()[1].partition_keys == {OWN}


@pytest.mark.parametrize(("status", "state"), [(404, "missing"), (500, "unknown")])
def test_when_airflow_knows_no_such_dag_or_does_not_say_nothing_counts_as_sent(
    run, folder, status, state
):
    put(folder, "2026-01-02")
    answer = ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail={"status_code": status})
    report, event = run("run 1", paused=AirflowRuntimeError(answer))
    assert event.partition_keys == {OWN}
    assert report["training"]["state"] == state
    assert run("run 2")[1].partition_keys == {OWN, "2026-01-02"}


def test_a_note_of_the_plan_is_part_of_the_report(run):
    assert run(verdict="identical", note="not compared")[0]["note"] == "not compared"


def test_a_training_run_answers_for_its_interval_before_it_waits(folder, make_context, monkeypatch):
    def incomplete(*_, **__):
        assert TrainingMarks(folder).untrained() == []
        raise WindowIncompleteError("2026-01-04 is missing")

    put(folder, OWN)
    monkeypatch.setattr("trainfeed.training.launch.train", incomplete)
    task = TrainingJobOperator(task_id="train", dataset="clicks")
    now = datetime.now(UTC)
    with pytest.raises(AirflowRescheduleException):
        task.execute(make_context("asset_triggered", started_at=now, partition_key=OWN))
    assert TrainingMarks(folder).untrained() == []

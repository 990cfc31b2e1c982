"""``training: each | last | none`` of a build: whether the run's own interval is trained on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from airflow.sdk.execution_time.context import OutletEventAccessors

from operators import training_wish
from operators.recordio_to_cephfs import RecordIOToCephFSOperator
from tests.unit.operators.test_catch_up import ASSET, OWN, folder, put, run  # noqa: F401
from tests.unit.operators.test_stages import PLAN, REPORT
from trainfeed.dataset import TrainingMarks, Untrained

NOW = datetime.now(UTC)
LATER = "2026-01-06"


@pytest.fixture
def build(monkeypatch, folder, make_context):  # noqa: F811
    """Publish the own interval with a wish; gives the report and the event keys that are sent."""

    def execute(wish, *, active=(), started_at=NOW, published=True, paused=False):
        def publish(*_):
            marked.append((folder.training_marks / f"{OWN}.g0001.declined").exists())
            put(folder, OWN)
            return REPORT

        marked = execute.marked = []
        monkeypatch.setattr("trainfeed.pipeline.publish.publish", publish)
        if published:
            put(folder, OWN)
        context = make_context(params={"training": wish}, started_at=started_at)
        context["dag_run"].dag_id = "build.clicks"
        context["outlet_events"] = OutletEventAccessors()
        context["ti"].active = list(active)
        context["ti"].paused = paused
        operator = RecordIOToCephFSOperator(
            task_id="publish",
            dataset="clicks",
            plan=PLAN,
            training_dag_id="train.clicks",
            outlets=[ASSET],
        )
        report = operator.execute(context)
        keys = context["outlet_events"][ASSET].partition_keys if operator.outlets else set()
        return report["training"], keys

    return execute


def day(number):
    return datetime(2026, 1, number, tzinfo=UTC)


def declined(folder):  # noqa: F811
    return [each.version for each in TrainingMarks(folder).declined()]


def test_none_sends_no_event_and_no_later_run_announces_the_version(build, run, folder):  # noqa: F811
    report, keys = build("none")
    assert (keys, report["state"]) == (set(), "declined")
    assert report["why"] == "the run was started with training: none"
    assert declined(folder) == [Untrained(OWN, 1)]
    put(folder, LATER)
    (folder.version(OWN, 1) / "MANIFEST.json").touch()
    assert TrainingMarks(folder).untrained() == [Untrained(LATER, 1)]
    assert TrainingMarks(folder).untrained(older=True) == [Untrained(OWN, 1), Untrained(LATER, 1)]


def test_the_mark_is_there_before_the_version_is(build):
    build("none", published=False)
    assert build.marked == [True]


def test_a_version_that_was_declined_is_trained_on_when_a_later_run_wants_it(build, folder):  # noqa: F811
    build("none")
    _, keys = build("each")
    assert keys == {OWN}
    assert declined(folder) == []


def test_last_alone_asks_for_its_training(build):
    report, keys = build("last", active=[day(5)])
    assert (keys, report["state"]) == ({OWN}, "listens")


def test_last_asks_for_none_while_a_run_of_a_later_interval_is_active(build):
    report, keys = build("last", active=[day(5), day(9)])
    assert keys == set()
    assert report["why"] == (
        "training: last, and runs of later intervals are active, 1 of those from 2026-01-06"
    )


def test_active_runs_of_earlier_intervals_do_not_count(build):
    assert build("last", active=[day(1), day(2), day(5)])[1] == {OWN}


def test_dates_are_asked_for_some_at_a_time(build, monkeypatch):
    monkeypatch.setattr(training_wish, "_DATES", 2)
    assert build("last", active=[day(5), day(12)])[1] == set()


def test_last_asks_for_none_when_a_later_interval_has_asked_since_the_run_began(build, folder):  # noqa: F811
    put(folder, LATER)
    TrainingMarks(folder).announce([Untrained(LATER, 1)], "run 9")
    report, keys = build("last", started_at=NOW - timedelta(hours=1))
    assert keys == set()
    assert report["why"] == f"training: last, and {LATER} has asked for its training meanwhile"
    assert build("last", started_at=NOW + timedelta(hours=1))[1] == {OWN}


@pytest.mark.parametrize("paused", [False, True])
def test_what_has_asked_is_known_also_when_airflow_drops_the_event(build, folder, paused):  # noqa: F811
    build("last", paused=paused)
    marks = TrainingMarks(folder)
    since = datetime.now(UTC) - timedelta(minutes=1)
    assert marks.asked_since(since, after="2026-01-01") == OWN
    assert marks.lost([Untrained(OWN, 1)], "run 2") == ([Untrained(OWN, 1)] if paused else [])


def test_a_training_that_has_begun_counts_as_asked_for(folder):  # noqa: F811
    put(folder, LATER)
    marks = TrainingMarks(folder)
    marks.see(LATER)
    assert marks.asked_since(datetime.now(UTC) - timedelta(minutes=1), after=OWN) == LATER

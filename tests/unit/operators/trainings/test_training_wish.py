"""``training: each | last | none`` of a build: whether the run's own interval is trained on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from airflow.sdk.exceptions import AirflowSkipException
from airflow.sdk.execution_time.context import OutletEventAccessors

from operators import training_starts as training_wish
from operators.stages import PlanIntervalOperator, RecordIOToCephFSOperator
from tests.unit.operators.stages.test_stages import PLAN, REPORT
from tests.unit.operators.trainings.test_catch_up import ASSET, OWN, folder, put, run
from trainfeed.pipeline import SkipReport
from trainfeed.versions import TrainingMarks, Untrained
from trainfeed.versions.skip import Skip, write_skip

__all__ = ["folder", "run"]

NOW = datetime.now(UTC)
LATER = "2026-01-06"


@pytest.fixture
def build(monkeypatch, folder, make_context):
    """Publish the own interval with a wish; gives the report and the event keys that are sent."""

    def execute(wish, *, active=(), started_at=NOW, published=True, paused=False, meanwhile=None):
        def publish(*_):
            marked.append((folder.training_marks / f"{OWN}.g0001.declined").exists())
            put(folder, OWN)
            if meanwhile is not None:
                meanwhile()
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


def declined(folder):
    return [each.version for each in TrainingMarks(folder).declined()]


def test_none_sends_no_event_and_no_later_run_announces_the_version(build, run, folder):
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


def test_a_version_that_was_declined_is_trained_on_when_a_later_run_wants_it(build, folder):
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


def test_last_asks_for_none_when_a_later_interval_has_asked_since_the_run_began(build, folder):
    put(folder, LATER)
    TrainingMarks(folder).announce([Untrained(LATER, 1)], "run 9")
    report, keys = build("last", started_at=NOW - timedelta(hours=1))
    assert keys == set()
    assert report["why"] == f"training: last, and {LATER} has asked for its training meanwhile"
    assert build("last", started_at=NOW + timedelta(hours=1))[1] == {OWN}


@pytest.mark.parametrize("paused", [False, True])
def test_what_has_asked_is_known_also_when_airflow_drops_the_event(build, folder, paused):
    build("last", paused=paused)
    marks = TrainingMarks(folder)
    since = datetime.now(UTC) - timedelta(minutes=1)
    assert marks.asked_since(since, after="2026-01-01") == OWN
    assert marks.lost([Untrained(OWN, 1)], "run 2") == ([Untrained(OWN, 1)] if paused else [])


def test_a_training_that_has_begun_counts_as_asked_for(folder):
    put(folder, LATER)
    marks = TrainingMarks(folder)
    marks.see(LATER)
    assert marks.asked_since(datetime.now(UTC) - timedelta(minutes=1), after=OWN) == LATER


def skip(folder, name=LATER):
    write_skip(folder, Skip(name, "no folder", "2026-01-07T00:00:00Z", None))


@pytest.fixture
def leave_out(folder, make_context, monkeypatch):
    """Plan a later interval, which the specification leaves out."""

    def execute(wish="last", *, active=(), name=LATER):
        def plan(*_, **__):
            skip(folder, name)
            return SkipReport("clicks", name, "the interval is left out: no folder")

        monkeypatch.setattr("trainfeed.pipeline.plan.plan", plan)
        params = {"training": wish, "window_start": name, "outdated": "fail"}
        context = make_context(params=params, started_at=NOW)
        context["dag_run"].dag_id = "build.clicks"
        context["ti"].active = list(active)
        with pytest.raises(AirflowSkipException):
            PlanIntervalOperator(task_id="plan", dataset="clicks", trains=True).execute(context)

    return execute


def test_an_active_run_whose_interval_is_skipped_does_not_count(build, folder):
    skip(folder)
    assert build("last", active=[day(5), day(6)])[1] == {OWN}
    # A version has precedence over the marker of a skip.
    put(folder, LATER)
    assert build("last", active=[day(5), day(6)])[1] == set()


def test_a_later_interval_that_is_skipped_during_the_publication_leaves_the_training(build, folder):
    report, keys = build(
        "last", active=[day(5), day(6)], published=False, meanwhile=lambda: skip(folder)
    )
    assert (keys, report["state"], build.marked) == ({OWN}, "listens", [True])
    assert declined(folder) == []


def test_a_newest_interval_that_is_left_out_hands_its_training_over(
    build, leave_out, folder, caplog
):
    build("last", active=[day(5), day(6)])
    assert declined(folder) == [Untrained(OWN, 1)]
    leave_out(active=[day(6)])
    assert declined(folder) == []
    assert TrainingMarks(folder).untrained() == [Untrained(OWN, 1)]
    assert f"{LATER} is left out: {OWN} counts as untrained" in caplog.text


def test_of_two_newest_intervals_that_are_left_out_at_once_the_second_hands_over(
    build, leave_out, folder
):
    both = [day(6), day(7)]
    build("last", active=[day(5), *both])
    leave_out(active=both)
    assert declined(folder) == [Untrained(OWN, 1)]  # the run of the other may still publish
    leave_out(active=both, name="2026-01-07")
    assert declined(folder) == []


@pytest.mark.parametrize("wish", ["each", "none"])
def test_a_run_that_does_not_want_the_last_alone_hands_nothing_over(build, leave_out, folder, wish):
    build("last", active=[day(5), day(6)])
    leave_out(wish)
    assert declined(folder) == [Untrained(OWN, 1)]


def test_an_interval_that_wanted_no_training_gets_none_from_one_that_is_left_out(
    build, leave_out, folder
):
    build("none")
    leave_out()
    assert declined(folder) == [Untrained(OWN, 1)]


def test_a_version_between_the_declined_one_and_the_one_left_out_keeps_its_own_wish(
    build, leave_out, folder
):
    build("last", active=[day(5), day(6)])
    put(folder, LATER)
    leave_out(name="2026-01-07")
    assert declined(folder) == [Untrained(OWN, 1)]

"""Training: the interval, the wait for missing versions, and the result."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowRescheduleException

from operators.trainings import TrainingJobOperator
from trainfeed.errors import JobFailedError, JobKilledError, LaunchError, WindowIncompleteError

REPORT = {"job": "clicks-2026-01-05-abc", "verdict": "ran"}
KEY = {"partition_key": "2026-01-05"}
WAIT = timedelta(hours=2)  # of the specification
NOW = datetime(2026, 2, 1, 12, tzinfo=UTC)


class Clock(datetime):
    @classmethod
    def now(cls, tz):
        return NOW.astimezone(tz)


@pytest.fixture(autouse=True)
def stand_still(monkeypatch):
    monkeypatch.setattr("operators.trainings.datetime", Clock)


@pytest.fixture
def launch(monkeypatch, clicks):
    """What ``train`` is called with; a test may set the error that it raises."""

    class Launch:
        error = None

        def __init__(self):
            self.calls = []

        def __call__(self, spec, env, interval, *, start_model, tag=None):
            self.calls.append((spec.name, interval.name, env.root))
            self.start_model = start_model
            self.tag = tag
            if self.error:
                raise self.error
            return REPORT

    launch = Launch()
    monkeypatch.setattr("trainfeed.training.launch.train", launch)
    return launch


def execute(context):
    return TrainingJobOperator(task_id="train", dataset="clicks").execute(context)


def next_call(context):
    with pytest.raises(AirflowRescheduleException) as caught:
        execute(context)
    return caught.value.reschedule_date


def test_the_partition_key_names_the_interval(launch, make_context):
    assert execute(make_context("asset_triggered", **KEY)) == REPORT
    assert launch.calls == [("clicks", "2026-01-05", "/pfs/dataset")]


def test_a_run_by_hand_names_it_by_parameter(launch, make_context):
    execute(make_context("manual", params={"window_start": "2026-01-07"}))
    assert launch.calls == [("clicks", "2026-01-07", "/pfs/dataset")]


def test_a_parameter_that_nobody_knows_trains_nothing(launch, make_context):
    with pytest.raises(AirflowFailException, match="got 'window'; nothing was read or written"):
        execute(make_context("asset_triggered", params={"window": "2026-01-07"}, **KEY))
    assert launch.calls == []


@pytest.mark.parametrize("run_type", ["asset_triggered", "manual"])
def test_missing_versions_are_awaited(launch, make_context, run_type):
    launch.error = WindowIncompleteError("2026-01-04 is missing")
    at = next_call(make_context(run_type, started_at=NOW, **KEY))
    assert at - NOW == timedelta(seconds=5)


@pytest.mark.parametrize(
    ("waited", "wait_s"), [(1, 10), (5, 160), (6, 300), (60, 300), (10_000, 300)]
)
def test_waits_grow_to_minutes_and_no_further(launch, make_context, waited, wait_s):
    launch.error = WindowIncompleteError("2026-01-04 is missing")
    at = next_call(make_context(started_at=NOW, task_reschedule_count=waited, **KEY))
    assert at - NOW == timedelta(seconds=wait_s)


def test_the_last_wait_ends_at_the_deadline(launch, make_context):
    launch.error = WindowIncompleteError("2026-01-04 is missing")
    started_at = NOW - WAIT + timedelta(seconds=30)
    context = make_context(started_at=started_at, task_reschedule_count=100, **KEY)
    assert next_call(context) == started_at + WAIT


def test_after_the_deadline_the_task_fails_and_says_what_is_missing(launch, make_context):
    launch.error = WindowIncompleteError("2026-01-04 is missing")
    context = make_context(started_at=NOW - WAIT, **KEY)
    with pytest.raises(AirflowFailException, match=r"2026-01-04 is missing; waited until .* clear"):
        execute(context)


def test_a_failed_job_is_not_tried_again(launch, make_context):
    launch.error = JobFailedError("exit code 1, see the log")
    with pytest.raises(AirflowFailException, match="see the log"):
        execute(make_context(**KEY))


def test_a_job_that_was_killed_is(launch, make_context):
    launch.error = JobKilledError("rank 0 was ended by signal 9")
    with pytest.raises(JobKilledError):
        execute(make_context(**KEY))


def test_a_launcher_that_is_away_is(launch, make_context):
    launch.error = LaunchError("connection refused")
    with pytest.raises(LaunchError):
        execute(make_context(**KEY))


def test_a_tag_in_the_form_is_found_once_per_run(launch, make_context, monkeypatch):
    asked = []

    def tagged_training(spec, folder, text, *, request):
        asked.append((text, request))
        return "the tag", spec.schedule_model().interval_named("2026-01-05")

    monkeypatch.setattr("trainfeed.training.tagged.tagged_training", tagged_training)
    context = make_context("manual")
    context["params"] = {"window_start": None, "tag": "prod"}
    context["dag_run"].run_id = "manual__1"
    assert execute(context) == REPORT
    assert asked == [("prod", "some_dag/manual__1 of 2026-02-01T00:00:00Z")]
    assert launch.tag == "the tag"
    context["params"] = {"window_start": "2026-01-05", "tag": "prod"}
    with pytest.raises(AirflowFailException, match="expected window_start or tag, got both"):
        execute(context)

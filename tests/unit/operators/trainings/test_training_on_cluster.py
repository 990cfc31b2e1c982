"""A training on a cluster: launched by a task, awaited by the triggerer, collected by the task."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from operators.job_trigger import TrainingJobTrigger
from operators.trainings import TrainingJobOperator
from tests.unit.training.jobs.kubernetes.cluster import IMAGE, SETTINGS, Ground
from trainfeed.training import launch as _launch
from trainfeed.training.jobs import JobLook, JobState
from trainfeed.training.jobs.kubernetes.api import ApiError
from trainfeed.training.launch import Launched

KEY = {"partition_key": "2026-01-05"}
LOCAL = 'entry: "train:main", window: 3'
ON_CLUSTER = f'{LOCAL}, launcher: indexed-job, image: "{IMAGE}"'
FAILED = {"conditions": [{"type": "Failed", "status": "True", "reason": "PodFailurePolicy"}]}


@pytest.fixture
def ground(tmp_path):
    return Ground(tmp_path)


@pytest.fixture
def spec(clicks, set_connection, ground):
    set_connection("kubernetes_default", conn_type="generic", extra=SETTINGS)
    set_connection("cephfs_default", extra={"path": str(ground.root)})
    path = clicks / "dataset.yaml"
    path.write_text(path.read_text().replace(LOCAL, ON_CLUSTER))
    return path


@pytest.fixture
def cluster(monkeypatch, ground):
    monkeypatch.setattr(
        "trainfeed.training.jobs.kubernetes.launcher.KubernetesApi", lambda _: ground.cluster
    )
    return ground.cluster


@pytest.fixture
def launch(monkeypatch, spec, ground, cluster):
    """A launch of one job; keeps the reasons that it was called with."""
    calls = []
    job = ground.job(dataset="clicks")

    def launched(spec, env, interval, *, again=None, start_model=None, tag=None):
        calls.append((interval.name, again, sorted(env.clusters)))
        ground.start(job)
        return Launched(job, ground.record(job), ground.launcher(), "ran")

    monkeypatch.setattr("trainfeed.training.launch.launch", launched)
    return SimpleNamespace(calls=calls, job=job)


@pytest.fixture
def context(make_context):
    def make(max_tries=0):
        found = make_context("asset_triggered", **KEY)
        found["ti"].max_tries = max_tries
        return found

    return make


def operator(**arguments):
    return TrainingJobOperator(task_id="train", dataset="clicks", **arguments)


def deferred(context, event=None, **arguments):
    with pytest.raises(TaskDeferred) as caught:
        operator(**arguments).execute(context, event)
    assert caught.value.method_name == "execute"
    return caught.value.trigger


def events(trigger):
    async def collect():
        return [event.payload async for event in trigger.run()]

    return asyncio.run(asyncio.wait_for(collect(), 30))


def test_a_job_that_goes_on_is_waited_for_without_a_worker(launch, context, ground):
    trigger = deferred(context())
    assert launch.calls == [("2026-01-05", None, ["kubernetes_default"])]
    path, arguments = trigger.serialize()
    assert path == "operators.job_trigger.TrainingJobTrigger"
    assert arguments["home"] == str(ground.home(launch.job))
    assert arguments["clusters"] == {"kubernetes_default": SETTINGS}
    assert TrainingJobTrigger(**arguments).serialize() == (path, arguments)


def test_when_the_job_has_ended_the_task_collects_it_and_launches_nothing(launch, context, ground):
    trigger = deferred(context())
    ground.leave_result(launch.job)
    ground.cluster.objects.clear()
    (event,) = events(trigger)
    report = operator().execute(context(), event)
    assert (report["verdict"], report["metrics"]) == ("ran", {"auc": 0.7})
    assert report["seconds"] >= 0
    assert len(launch.calls) == 1


def test_a_job_that_still_goes_on_after_the_wait_is_waited_for_again(launch, context, ground):
    trigger = deferred(context())
    trigger.longest_s = 0.0
    (event,) = events(trigger)
    assert deferred(context(), event).serialize() == (
        trigger.serialize()[0],
        {**trigger.serialize()[1], "longest_s": 3600.0},
    )


def test_a_job_that_failed_fails_the_task_and_is_not_tried_again(launch, context, ground):
    trigger = deferred(context())
    ground.cluster.set_status(**FAILED)
    (event,) = events(trigger)
    with pytest.raises(AirflowFailException, match="PodFailurePolicy"):
        operator().execute(context(), event)


@pytest.mark.parametrize(
    ("retries", "max_tries", "again"),
    [(0, 0, False), (2, 2, False), (2, 3, True), (0, 1, True)],
)
def test_only_a_person_who_clears_the_task_gives_a_reason_to_start_again(
    launch, context, retries, max_tries, again
):
    deferred(context(max_tries), retries=retries)
    (_, reason, _) = launch.calls[0]
    assert (reason is not None) is again
    assert reason is None or reason == f"task cleared in run 1, up to try {max_tries + 1}"


def test_a_task_that_is_killed_before_it_waits_ends_its_job(launch, context, ground, monkeypatch):
    task = operator()
    task.on_kill()

    def killed(_):
        task.on_kill()
        return JobLook(JobState.CANCELLED)

    monkeypatch.setattr("trainfeed.training.launch.look", killed)
    delivered = []
    monkeypatch.setattr(Launched, "deliver", lambda _, status: delivered.append(status) or {})
    with pytest.raises(AirflowFailException, match="was cancelled"):
        task.execute(context())
    assert ground.cluster.jobs() == []
    assert delivered == ["KILLED", "KILLED"]


@pytest.mark.parametrize("is_first", [True, False])
def test_a_task_that_is_killed_while_it_launches_ends_the_job_that_it_launched(
    launch, context, ground, monkeypatch, is_first
):
    task, launched = operator(), _launch.launch

    def killed(*arguments, **options):
        kills = [task.on_kill, lambda: None]
        first, last = kills if is_first else reversed(kills)
        first()
        found = launched(*arguments, **options)
        last()
        return found

    monkeypatch.setattr("trainfeed.training.launch.launch", killed)
    with pytest.raises(AirflowFailException, match="was cancelled"):
        task.execute(context())
    assert ground.cluster.jobs() == []


def test_a_task_that_is_killed_when_it_looks_again_after_its_wait_ends_its_job(
    launch, context, ground, monkeypatch
):
    trigger = deferred(context())
    trigger.longest_s = 0.0
    (event,) = events(trigger)
    task = operator()

    def killed(_):
        task.on_kill()
        return JobLook(JobState.CANCELLED)

    monkeypatch.setattr("trainfeed.training.launch.look", killed)
    with pytest.raises(AirflowFailException, match="was cancelled"):
        task.execute(context(), event)
    assert ground.cluster.jobs() == []
    assert ground.record(launch.job).newest_attempt().is_cancelled


def test_a_task_that_is_killed_when_its_job_has_ended_well_cancels_and_delivers_nothing(
    launch, context, ground, monkeypatch
):
    task = operator()

    def killed(_):
        ground.leave_result(launch.job)
        ground.cluster.objects.clear()
        task.on_kill()
        return JobLook(JobState.SUCCEEDED)

    monkeypatch.setattr("trainfeed.training.launch.look", killed)
    delivered = []
    monkeypatch.setattr(Launched, "deliver", lambda _, status: delivered.append(status) or {})
    assert task.execute(context())["metrics"] == {"auc": 0.7}
    assert delivered == ["FINISHED"]
    assert not ground.record(launch.job).newest_attempt().is_cancelled


def test_clearing_the_waiting_task_ends_the_job_and_a_triggerer_that_goes_down_does_not(
    launch, context, ground
):
    trigger = deferred(context())
    asyncio.run(trigger.cleanup())
    assert len(ground.cluster.jobs()) == 1
    asyncio.run(trigger.on_kill())
    assert ground.cluster.jobs() == []
    assert ground.record(launch.job).newest_attempt().is_cancelled
    assert len(events(trigger)) == 1


def test_the_wait_goes_on_while_the_cluster_does_not_answer(launch, context, ground, monkeypatch):
    trigger = deferred(context())
    trigger.poll_s = 0.0
    monkeypatch.setattr("trainfeed.training.jobs.kubernetes.api._CALLS", 1)
    ground.cluster.faults = [("GET", ApiError("timed out", status=None))] * 3
    ground.leave_result(launch.job)
    ground.cluster.objects.clear()
    assert len(events(trigger)) == 1
    assert ground.cluster.faults == []


def test_a_job_that_cannot_be_asked_about_any_more_is_told_to_the_task(launch, context, ground):
    trigger = deferred(context())
    (ground.home(launch.job) / "attempts" / "0001.json").write_text("{")
    assert len(events(trigger)) == 1


def test_a_connection_that_is_missing_is_shown_by_an_example(spec, make_context, monkeypatch):
    monkeypatch.delenv("AIRFLOW_CONN_KUBERNETES_DEFAULT")
    with pytest.raises(AirflowFailException, match="airflow connections add kubernetes_default"):
        operator().execute(make_context("asset_triggered", **KEY))


def test_a_local_training_needs_no_connection_of_a_cluster(clicks, make_context, monkeypatch):
    monkeypatch.setattr("trainfeed.training.launch.train", lambda *_, **__: {"verdict": "ran"})
    assert operator().execute(make_context("asset_triggered", **KEY)) == {"verdict": "ran"}

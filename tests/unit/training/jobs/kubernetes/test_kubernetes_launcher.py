"""At most one live job of a name, whatever fails on the way, and success only by a result."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from tests.unit.training.jobs.kubernetes.cluster import SETTINGS
from trainfeed.core import faults
from trainfeed.errors import (
    ChecksumError,
    ConfigError,
    JobConflictError,
    JobFailedError,
    JobKilledError,
    JobRejectedError,
    LaunchError,
)
from trainfeed.training.jobs import ClusterSettings, JobState
from trainfeed.training.jobs.kubernetes.api import ApiError
from trainfeed.training.jobs.kubernetes.launcher import (
    claim_attempt,
    end_of_log,
    require_success,
    settle,
)

KINDS = ("indexed-job", "pytorch-job", "paddle-job", "train-job", "job-set")
SERVER = [ApiError(f"status {s}", status=s) for s in (500, 502, 503, 504, 429, 408)]
AWAY = ApiError("timed out", status=None)
COMPLETE = {"conditions": [{"type": "Complete", "status": "True"}]}
FAILED = {"conditions": [{"type": "Failed", "status": "True", "reason": "PodFailurePolicy"}]}


class Killed(BaseException):
    """The launching process is gone."""


def kill_at(monkeypatch, point):
    def strike(name):
        if name == point:
            raise Killed

    monkeypatch.setattr(faults, "point", strike)


def launched(ground, job, again=None):
    """What a launch does: claim the attempt, make or adopt it."""
    record, launcher = ground.record(job), ground.launcher(job.placement.launcher)
    attempt, is_new = claim_attempt(job, record, launcher, again)
    launcher.start(attempt.job, record.home)
    return is_new


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_is_made_once_and_adopted_afterwards(ground, kind):
    job = ground.job(kind)
    assert launched(ground, job)
    assert not launched(ground, job)
    assert len(ground.cluster.jobs()) == 1
    posts = [path for method, path in ground.cluster.calls if method == "POST"]
    assert len(posts) == len(set(posts))
    assert ground.record(job).job() == job


@pytest.mark.parametrize(
    "point",
    [
        "launch.after_record",
        "launch.before_ConfigMap",
        "launch.before_Service",
        "launch.before_Job",
        "launch.after_create",
    ],
)
def test_a_launch_that_is_killed_between_two_steps_is_finished_by_the_next(
    ground, monkeypatch, point
):
    job = ground.job()
    with monkeypatch.context() as patch:
        kill_at(patch, point)
        with pytest.raises(Killed):
            launched(ground, job)
    # Retention keeps what a job file without a result names.
    assert ground.record(job).job().versions == job.versions
    assert not launched(ground, job)
    assert [each["kind"] for each in ground.cluster.objects.values()] == [
        "ConfigMap",
        "Service",
        "Job",
    ]
    assert ground.record(job).newest_attempt().is_created


@pytest.mark.parametrize("fault", [*SERVER, AWAY], ids=str)
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_a_server_that_fails_for_a_while_is_asked_again(ground, method, fault):
    ground.cluster.faults = [(method, fault)] * 3
    launched(ground, ground.job())
    assert len(ground.cluster.jobs()) == 1
    assert ground.pauses == [0.5, 1.0, 2.0]


def test_the_wait_that_a_server_asks_for_is_kept_within_bounds(ground):
    for asked in (5.0, 3600.0):
        fault = ApiError("slow down", status=429, retry_after_s=asked)
        ground.cluster.faults.append(("POST", fault))
    launched(ground, ground.job())
    assert ground.pauses == [5.0, 30.0]


def test_a_server_that_stays_away_is_one_error_that_may_pass(ground):
    ground.cluster.faults = [("*", AWAY)] * 100
    with pytest.raises(LaunchError, match=r"cannot create ConfigMap .*timed out; what was made is"):
        launched(ground, ground.job())
    assert sum(ground.pauses) < 60
    ground.cluster.faults = []
    assert not launched(ground, ground.job())
    assert len(ground.cluster.jobs()) == 1


def test_a_reply_that_is_lost_makes_no_second_job(ground):
    for _ in range(3):
        ground.cluster.lost = {"POST"}
        launched(ground, ground.job())
    assert len(ground.cluster.jobs()) == 1


def test_a_job_of_another_identity_under_the_name_is_left_alone(ground):
    job = ground.job()
    ground.start(job)
    ground.cluster.jobs()[0]["metadata"]["annotations"]["trainfeed/identity"] = "other"
    record = ground.record(job)
    with pytest.raises(JobConflictError, match="got other; it was left as it is"):
        ground.launcher().look(record)
    (record.home / "attempts" / "0001.created.json").unlink()
    with pytest.raises(JobConflictError, match="expected Job t-flights-"):
        launched(ground, job)
    assert len(ground.cluster.jobs()) == 1


def test_code_of_another_job_under_the_name_is_left_alone(ground, monkeypatch):
    job = ground.job()
    with monkeypatch.context() as patch:
        kill_at(patch, "launch.before_Service")
        with pytest.raises(Killed):
            launched(ground, job)
    (code,) = ground.cluster.objects.values()
    code["metadata"]["annotations"]["trainfeed/code"] = "other"
    with pytest.raises(JobConflictError, match="expected ConfigMap t-flights-"):
        launched(ground, job)
    assert ground.cluster.jobs() == []


def test_an_object_that_trainfeed_did_not_make_is_left_alone(ground):
    job = ground.job()
    ground.start(job)
    (ground.record(job).home / "attempts" / "0001.created.json").unlink()
    del ground.cluster.jobs()[0]["metadata"]["annotations"]
    with pytest.raises(JobConflictError, match="one that trainfeed did not make"):
        launched(ground, job)


@pytest.mark.parametrize(
    ("status", "message", "kind", "says"),
    [
        (403, "exceeded quota: gpus", JobRejectedError, "exceeded quota: gpus.*raise the quota"),
        (403, 'admission webhook "x" denied', JobRejectedError, "admission webhook"),
        (404, "namespaces not found", JobRejectedError, "make the namespace"),
        (422, "spec.template: Invalid", JobRejectedError, "correct 'train' of dataset.yaml"),
        (400, "strict decoding error", JobRejectedError, "strict decoding error"),
        (401, "Unauthorized", ConfigError, "credentials"),
    ],
)
def test_what_a_server_refuses_is_one_error_with_its_own_words(ground, status, message, kind, says):
    ground.cluster.faults = [("POST", ApiError(message, status=status))]
    with pytest.raises(kind, match=rf"(?s)cannot create ConfigMap t-flights.*{says}"):
        launched(ground, ground.job())
    assert ground.pauses == []
    assert not ground.cluster.jobs()


def test_a_job_is_a_success_only_with_its_result(ground):
    job = ground.job()
    ground.start(job)
    record, launcher = ground.record(job), ground.launcher()
    ground.cluster.set_status(**COMPLETE)
    with pytest.raises(JobFailedError, match="rank 0 left no result: nothing was trained"):
        require_success(record, launcher)
    assert record.newest_attempt().ended.state is JobState.FAILED


def test_a_job_that_completed_with_its_result_is_a_success_and_leaves_only_itself(ground):
    job = ground.job()
    ground.start(job)
    ground.leave_result(job)
    ground.cluster.set_status(**COMPLETE)
    require_success(ground.record(job), ground.launcher())
    assert [each["kind"] for each in ground.cluster.objects.values()] == ["Job"]
    assert not launched(ground, job)
    ground.cluster.objects.clear()
    require_success(ground.record(job), ground.launcher())


def test_a_model_that_was_changed_is_no_success(ground):
    job = ground.job()
    ground.start(job)
    ground.leave_result(job)
    (ground.home(job) / "output" / "model.npz").write_text("changed")
    ground.cluster.set_status(**COMPLETE)
    with pytest.raises(ChecksumError):
        require_success(ground.record(job), ground.launcher())


def test_a_job_that_is_gone_succeeded_with_a_result_and_is_unknown_without(ground):
    with_result, without = ground.job(), ground.job(seed=8)
    for job in (with_result, without):
        ground.start(job)
    ground.leave_result(with_result)
    ground.cluster.objects.clear()
    require_success(ground.record(with_result), ground.launcher())
    with pytest.raises(JobFailedError, match="is gone: the cluster has no such job any more"):
        require_success(ground.record(without), ground.launcher())
    assert not launched(ground, without)
    assert ground.cluster.jobs() == []


def test_a_failed_job_follows_only_a_reason_and_each_reason_makes_one(ground):
    job = ground.job()
    ground.start(job)
    ground.leave_result(job)
    ground.cluster.set_status(**FAILED)
    for _ in range(2):
        assert not launched(ground, job)
    assert launched(ground, job, "fixed the disk")
    assert not launched(ground, job, "fixed the disk")
    assert len(ground.cluster.jobs()) == 2
    record = ground.record(job)
    assert record.newest_attempt().number == 2
    assert record.job().attempt == 2
    assert record.result() is None
    assert (record.home / "attempts" / "0001.result.json").is_file()
    ground.leave_result(job)
    ground.cluster.set_status(**COMPLETE)
    require_success(record, ground.launcher())
    assert not launched(ground, job, "for fun")


def test_a_result_that_a_killed_launch_left_is_not_that_of_the_next_attempt(ground, monkeypatch):
    job = ground.job()
    ground.start(job)
    ground.leave_result(job)
    ground.cluster.set_status(**FAILED)
    with monkeypatch.context() as patch:
        kill_at(patch, "job.after_ended")
        with pytest.raises(Killed):
            launched(ground, job, "fixed the disk")
    record = ground.record(job)
    assert record.newest_attempt().ended is not None
    assert launched(ground, job, "fixed the disk")
    assert record.result() is None
    assert (record.home / "attempts" / "0001.result.json").is_file()


def test_an_attempt_at_a_job_of_very_many_versions_can_be_read_again(ground):
    job = ground.job()
    (first, *_) = job.versions
    many = [first.model_copy(update={"generation": f"g{n:04d}"}) for n in range(1, 10_000)]
    large = job.model_copy(update={"versions": many, "attempt": 1})
    assert ground.record(job).claim(large, None)
    assert len(ground.record(job).attempt(1).job.versions) == len(many)


def test_a_live_job_is_adopted_whatever_the_reason_and_the_resources(ground):
    job = ground.job()
    ground.start(job)
    ground.cluster.set_status(active=2, ready=2)
    other = ground.job(placement={"memory_bytes": 1 << 30, "queue": "day"})
    assert other.name == job.name
    assert not launched(ground, other, "impatient")
    assert ground.record(job).job().placement == job.placement


def test_two_launches_at_once_make_one_attempt(ground):
    job = ground.job()
    record, launcher = ground.record(job), ground.launcher()
    first, is_first = claim_attempt(job, record, launcher, None)
    second, is_second = claim_attempt(job, record, launcher, None)
    assert (is_first, is_second, first) == (True, False, second)


def test_a_job_that_is_cancelled_is_deleted_and_said_to_be(ground):
    job = ground.job()
    ground.start(job)
    record, launcher = ground.record(job), ground.launcher()
    launcher.cancel(record)
    assert ground.cluster.objects == {}
    assert settle(record, launcher).state is JobState.CANCELLED
    with pytest.raises(JobFailedError, match="was cancelled"):
        require_success(record, launcher)
    launcher.cancel(record)
    assert not launched(ground, job)
    assert launched(ground, job, "again after all")


def test_a_cancellation_deletes_no_object_of_another_job(ground, caplog):
    job = ground.job()
    ground.start(job)
    for found in ground.cluster.objects.values():
        found["metadata"]["annotations"]["trainfeed/identity"] = "other"
    ground.launcher().cancel(ground.record(job))
    assert len(ground.cluster.objects) == 3
    assert caplog.text.count("it was left as it is") == 3


def test_a_cancellation_that_is_killed_is_finished_by_the_next(ground, monkeypatch):
    job = ground.job()
    ground.start(job)
    record, launcher = ground.record(job), ground.launcher()
    with monkeypatch.context() as patch:
        kill_at(patch, "launch.before_delete")
        with pytest.raises(Killed):
            launcher.cancel(record)
    launcher.cancel(record)
    assert ground.cluster.objects == {}


def test_a_cancellation_while_the_job_is_made_leaves_no_job(ground, monkeypatch):
    job = ground.job()

    def cancel(name):
        if name == "launch.before_Job":
            ground.launcher().cancel(ground.record(job))

    monkeypatch.setattr(faults, "point", cancel)
    launched(ground, job)
    assert ground.cluster.jobs() == []
    assert settle(ground.record(job), ground.launcher()).state is JobState.CANCELLED


def test_a_job_made_while_its_cancellation_was_killed_is_ended_by_the_next_launch(
    ground, monkeypatch
):
    job = ground.job()
    record = ground.record(job)

    def mark_then_die(name):
        if name == "launch.before_Job":
            record.mark_cancelled(1)
        if name == "launch.after_create":
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(faults, "point", mark_then_die)
        with pytest.raises(Killed):
            launched(ground, job)
    assert len(ground.cluster.jobs()) == 1
    assert not launched(ground, job)
    assert ground.cluster.jobs() == []


def test_what_a_killed_settlement_leaves_is_settled_by_the_next(ground, monkeypatch):
    job = ground.job()
    ground.start(job)
    ground.leave_result(job)
    ground.cluster.set_status(**COMPLETE)
    with monkeypatch.context() as patch:
        kill_at(patch, "launch.before_end")
        with pytest.raises(Killed):
            settle(ground.record(job), ground.launcher())
    require_success(ground.record(job), ground.launcher())
    assert ground.record(job).newest_attempt().ended.state is JobState.SUCCEEDED


def test_a_job_that_goes_on_is_no_failure(ground):
    job = ground.job()
    ground.start(job)
    with pytest.raises(LaunchError, match="is waiting"):
        require_success(ground.record(job), ground.launcher())
    assert ground.record(job).newest_attempt().ended is None


def pod(index=0, phase="Failed", **status):
    name = {"batch.kubernetes.io/job-completion-index": str(index)}
    return {
        "metadata": {"name": f"pod-{index}", "annotations": name},
        "status": {"phase": phase, **status},
    }


def ended(index, code, reason="Error"):
    state = {"state": {"terminated": {"exitCode": code, "reason": reason}}}
    return pod(index, containerStatuses=[state])


DISRUPTED = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]


@pytest.mark.parametrize(
    ("pods", "kind", "says"),
    [
        ([ended(0, 1), ended(1, 137)], JobKilledError, "rank 1: ended by SIGKILL"),
        ([ended(0, 143)], JobKilledError, "ended by SIGTERM"),
        ([ended(0, 137, "OOMKilled")], JobKilledError, "raise train.memory"),
        ([ended(0, 75)], JobKilledError, "it met an error that may pass"),
        ([ended(1, 3)], JobFailedError, "rank 1: it ended with status 3.*fix train:main"),
        ([ended(0, 78)], JobRejectedError, "it ended with status 78"),
        ([ended(1, 79)], JobKilledError, "rank 1: .*more often than train.retries allows"),
        ([pod(reason="Evicted", message="disk")], JobKilledError, "evicted by its machine: disk"),
        ([pod(conditions=DISRUPTED)], JobKilledError, "PreemptionByScheduler"),
        ([], JobFailedError, "PodFailurePolicy"),
    ],
)
def test_what_ended_a_rank_is_told_and_only_what_came_from_outside_may_pass(
    ground, pods, kind, says
):
    job = ground.job()
    ground.start(job)
    ground.cluster.set_status(**FAILED)
    ground.cluster.pods = pods
    for _ in range(2):  # the second time from what was written down
        with pytest.raises(LaunchError, match=rf"(?s){says}.*--again WHY") as caught:
            require_success(ground.record(job), ground.launcher())
        assert type(caught.value) is kind


OPERATOR = "Job t-flights has failed because it has reached the specified backoff limit"


@pytest.mark.parametrize(
    ("kind", "reason", "message"),
    [
        ("indexed-job", "BackoffLimitExceeded", "Job has reached the specified backoff limit"),
        ("indexed-job", "FailedIndexes", "Job has failed indexes"),
        ("job-set", "ReachedMaxRestarts", "jobset failed due to reaching max restarts"),
        ("pytorch-job", "PyTorchJobFailed", OPERATOR),
        ("paddle-job", "JobFailed", OPERATOR),
    ],
)
def test_ranks_that_were_ended_from_outside_until_no_retry_was_left_were_killed(
    ground, kind, reason, message
):
    job = ground.job(kind, placement={"retries": 2})
    ground.start(job)
    # The operator has removed the pods, and with them what ended the ranks.
    failed = {"type": "Failed", "status": "True", "reason": reason, "message": message}
    ground.cluster.set_status(conditions=[failed])
    with pytest.raises(JobKilledError, match=r"more often than train\.retries allows") as caught:
        require_success(ground.record(job), ground.launcher(kind))
    assert message in str(caught.value)


def test_a_time_limit_that_was_reached_is_named(ground):
    job = ground.job()
    ground.start(job)
    reached = {"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}
    ground.cluster.set_status(conditions=[reached])
    with pytest.raises(JobFailedError, match=r"it reached train\.time_limit"):
        require_success(ground.record(job), ground.launcher())


NOT_PULLED = {"reason": "ImagePullBackOff"}
UNSCHEDULABLE = [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes have a GPU"}]


@pytest.mark.parametrize(
    ("status", "pods", "state", "says"),
    [
        ({}, [], JobState.WAITING, ""),
        ({"active": 2}, [], JobState.STARTING, ""),
        ({"active": 2, "ready": 1}, [], JobState.RUNNING, ""),
        (
            {"active": 1},
            [pod(phase="Pending", conditions=UNSCHEDULABLE)],
            JobState.WAITING,
            "no machine has room for it: 0/3 nodes have a GPU",
        ),
        (
            {"active": 1},
            [pod(phase="Pending", containerStatuses=[{"state": {"waiting": NOT_PULLED}}])],
            JobState.STARTING,
            "its image cannot be pulled",
        ),
        (
            {"conditions": [{"type": "Suspended", "status": "True", "message": "queued"}]},
            [],
            JobState.WAITING,
            "queued",
        ),
    ],
)  # fmt: skip
def test_a_live_job_says_what_it_waits_for(ground, status, pods, state, says):
    job = ground.job()
    ground.start(job)
    ground.cluster.set_status(**status)
    ground.cluster.pods = pods
    now = settle(ground.record(job), ground.launcher())
    assert (now.state, says in now.reason) == (state, True)
    assert ground.record(job).newest_attempt().ended is None


STATUSES = {
    "pytorch-job": ("Running", "Succeeded"),
    "paddle-job": ("Running", "Succeeded"),
    "train-job": (None, "Complete"),
    "job-set": (None, "Completed"),
}


@pytest.mark.parametrize("kind", STATUSES)
def test_every_kind_has_the_states_of_one_table(ground, kind):
    running, well = STATUSES[kind]
    job = ground.job(kind)
    ground.start(job)
    record, launcher = ground.record(job), ground.launcher(kind)

    def state(condition=None, **status):
        true = {"type": condition, "status": "True"}
        ground.cluster.set_status(**status, conditions=[true] if condition else [])
        return launcher.look(record).state

    assert state() is JobState.WAITING
    assert state("Suspended") is JobState.WAITING
    if running:
        assert state(running) is JobState.RUNNING
    else:
        name = "jobsStatus" if kind == "train-job" else "replicatedJobsStatus"
        assert state(**{name: [{"ready": 2}]}) is JobState.RUNNING
    assert state("Failed") is JobState.FAILED
    assert state(well) is JobState.FAILED  # no result
    ground.leave_result(job)
    assert state(well) is JobState.SUCCEEDED


def test_a_queued_job_waits_and_never_failed(ground):
    job = ground.job(placement={"queue": "nightly"})
    ground.start(job)
    assert ground.cluster.jobs()[0]["spec"]["suspend"] is True
    now = settle(ground.record(job), ground.launcher())
    assert (now.state, now.reason) == (JobState.WAITING, "the job is suspended")


def test_the_end_of_a_log_is_bounded_and_shows_no_secret(ground):
    job = ground.job()
    ground.start(job)
    record, launcher = ground.record(job), ground.launcher()
    ground.cluster.pods = [ended(0, 1)]
    ground.cluster.log = "x" * 10_000 + "\npassword=hunter2 \x1b[2J\nend"
    text = end_of_log(record, launcher, rank=0, max_bytes=2000)
    assert len(text) < 2100
    assert "hunter2" not in text
    assert "\x1b" not in text
    assert text.endswith("end")
    ground.cluster.faults = [("GET", ApiError("no kubelet", status=500))] * 9
    assert "no kubelet" in end_of_log(record, launcher, rank=0, max_bytes=2000)
    ground.cluster.faults = []
    assert "no pod of rank 1" in end_of_log(record, launcher, rank=1, max_bytes=2000)
    record.log(0).write_bytes(b"\xff" * 5000 + b"own file")
    assert end_of_log(record, launcher, rank=0, max_bytes=2000).endswith("own file")


def test_a_damaged_attempt_is_one_clear_error(ground):
    job = ground.job()
    ground.start(job)
    for text in ("{", "[]", '{"job": 3}'):
        (ground.home(job) / "attempts" / "0001.json").write_text(text)
        with pytest.raises(JobRejectedError, match="remove the job's folder"):
            ground.record(job).newest_attempt()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"namespace": "a b"}, "namespace: "),
        ({"root": {}}, r"root\.path: field required"),
        ({"volumes": {"x": {"path": "../etc"}}}, r"volumes\.x\.path"),
        ({"imagse": []}, "imagse: "),
        ({"root": {"path": "pfs"}}, r"root\.path: string should match pattern '\^\(/\[A-Za-z"),
        ({"root": {"path": "/pfs", "claim": "a", "host_path": "/b"}}, "root: .*got both"),
        ({"keep_hours": 600_000}, "keep_hours: "),
        ({"namespace": "a.b"}, "namespace: "),
    ],
)
def test_a_wrong_setting_of_a_cluster_is_named(change, says):
    with pytest.raises(ConfigError, match=rf"settings of the cluster 'k': {says}"):
        ClusterSettings.of({"k": {**SETTINGS, **change}}, "k")


def test_names_of_claims_may_have_several_labels():
    made = ClusterSettings.of({"k": {**SETTINGS, "root": {"path": "/p", "claim": "ceph.a"}}}, "k")
    assert made.root.claim == "ceph.a"


def test_without_the_extra_a_launch_says_what_to_install(ground, monkeypatch):
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    job = ground.job()
    ground.record(job).claim(job, None)
    launcher = replace(ground.launcher(), api=None)
    with pytest.raises(ConfigError, match=r"pip install 'trainfeed\[kubernetes\]'"):
        launcher.start(job, ground.home(job))


def test_a_kubeconfig_that_is_none_is_named(ground, tmp_path):
    job = ground.job()
    ground.start(job)
    for text in (None, "[]", "a: b", "token: {secret", "clusters: 3"):
        path = tmp_path / "kubeconfig"
        if text is not None:
            path.write_text(text)
        launcher = replace(ground.launcher(kubeconfig=str(path)), api=None)
        with pytest.raises(ConfigError, match=r"expected the kubeconfig /.*/kubeconfig wi") as got:
            launcher.look(ground.record(job))
        assert "secret" not in str(got.value)


def test_a_cluster_without_settings_says_where_they_belong():
    with pytest.raises(ConfigError, match="known here: other; add them to the file of TRAINFEED_"):
        ClusterSettings.of({"other": SETTINGS}, "k")

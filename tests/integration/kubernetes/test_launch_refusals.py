"""What a cluster refuses, holds back or ends: one message that says why, and no second job."""

from __future__ import annotations

import copy
import uuid

import pytest
from kubernetes import client

from services.kubernetes import ADMIN, NAMESPACE, STRANGER
from tests.integration.kubernetes.cluster import until
from tests.integration.kubernetes.test_launch import WAITS, reached
from trainfeed.errors import (
    ConfigError,
    JobConflictError,
    JobFailedError,
    JobKilledError,
    JobRejectedError,
)
from trainfeed.training.jobs import JobState
from trainfeed.training.jobs.kubernetes.launcher import end_of_log
from trainfeed.training.launch import look, render

ELSEWHERE = {"node_selector": {"tests": "by-hand"}}


@pytest.fixture
def space(lab):
    """A namespace of the test's own, which goes without being waited for."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    lab.admin.core.create_namespace({"metadata": {"name": name}})
    accounts = lab.admin.core.list_namespaced_service_account
    until(lambda: accounts(name).items)
    yield name
    lab.admin.core.delete_namespace(name)


def admin_in(own, namespace):
    return own.set(kubeconfig=str(own.lab.service.files.kubeconfig(ADMIN)), namespace=namespace)


def play_kubelet(own, status):
    """Say of the only pod of a job what a kubelet would; our node leaves it alone."""
    (pod,) = until(lambda: own.lab.pods(own.name))
    status = {"containerStatuses": [], **status}
    for each in status["containerStatuses"]:
        each.update({"name": "trainer", "image": "", "imageID": "", "ready": False})
        each["restartCount"] = 0
    patch = own.lab.admin.core.patch_namespaced_pod_status
    patch(pod.metadata.name, NAMESPACE, {"status": status})


def ended(code, reason="Error"):
    state = {"terminated": {"exitCode": code, "reason": reason}}
    return {"phase": "Failed", "containerStatuses": [{"state": state}]}


PREEMPTED = {
    **ended(143),
    "conditions": [
        {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"},
    ],
}


def test_a_job_of_the_same_name_and_another_identity_is_left_alone(training):
    own = training(ranks=1)
    (_, made) = render(own.spec, own.env, own.interval)
    other = copy.deepcopy(made)
    other["metadata"]["annotations"]["trainfeed/identity"] = "f" * 64
    other["spec"]["suspend"] = True
    batch = own.lab.admin.batch
    before = batch.create_namespaced_job(NAMESPACE, other)
    with pytest.raises(JobConflictError, match="f" * 64):
        own.launch()
    after = batch.read_namespaced_job(own.name, NAMESPACE)
    assert (after.metadata.uid, after.spec) == (before.metadata.uid, before.spec)
    assert after.metadata.annotations == before.metadata.annotations
    batch.delete_namespaced_job(own.name, NAMESPACE, propagation_policy="Background")


@pytest.mark.parametrize(
    ("status", "error", "told"),
    [
        (ended(137, "OOMKilled"), JobKilledError, "more memory than its limit"),
        (ended(143), JobKilledError, "SIGTERM"),
        (ended(1), JobFailedError, "status 1"),
        ({"phase": "Failed", "reason": "Evicted", "message": "disk"}, JobKilledError, "disk"),
        (PREEMPTED, JobKilledError, "PreemptionByScheduler"),
    ],
    ids=["out of memory", "terminated", "own failure", "evicted", "preempted"],
)
def test_each_end_of_a_pod_has_a_message_of_its_own(training, status, error, told):
    own = training(ranks=1, **ELSEWHERE)
    launched = own.launch()
    play_kubelet(own, status)
    own.finished(launched)
    with pytest.raises(error, match=told):
        own.collect(launched)
    assert len(own.jobs()) == 1


@pytest.mark.nightly
def test_a_pod_that_no_machine_takes_or_whose_image_is_away_waits_and_says_so(training):
    own = training(ranks=1, **ELSEWHERE)
    launched = own.launch()
    now = until(lambda: found if "no machine" in (found := look(launched)).reason else None)
    assert now.state is JobState.WAITING
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}
    play_kubelet(own, {"phase": "Pending", "containerStatuses": [{"state": waiting}]})
    assert look(launched).state.is_live
    launched.launcher.cancel(launched.record)
    assert own.finished(launched).state is JobState.CANCELLED


def test_an_account_without_the_role_is_told_which_right_it_lacks(training):
    own = training()
    stranger = own.set(kubeconfig=str(own.lab.service.files.kubeconfig(STRANGER)))
    with pytest.raises(JobRejectedError, match=r"cannot create resource .* docs/operations"):
        stranger.launch()
    assert own.jobs() == []
    assert own.train()["verdict"] == "adopted"


@pytest.mark.nightly
def test_a_wrong_token_is_a_matter_of_the_connection(training, tmp_path):
    own = training()
    files = own.lab.service.files
    path = tmp_path / "wrong.kubeconfig"
    path.write_text(files.config_text("0" * 32, own.lab.service.server))
    with pytest.raises(ConfigError, match="correct the credentials"):
        own.set(kubeconfig=str(path)).launch()
    assert own.jobs() == []


@pytest.mark.nightly
def test_a_namespace_that_is_not_there_is_named(training):
    own = admin_in(training(), "nowhere")
    with pytest.raises(JobRejectedError, match=r'"nowhere" not found.*make the namespace'):
        own.launch()


@pytest.mark.nightly
def test_a_quota_that_is_used_up_is_named(training, space):
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"count/jobs.batch": "0"}}}
    own = admin_in(training(), space)
    core = own.lab.admin.core
    core.create_namespaced_resource_quota(space, quota)
    until(lambda: core.read_namespaced_resource_quota("none", space).status.hard)
    with pytest.raises(JobRejectedError, match="exceeded quota: none"):
        own.launch()
    assert own.jobs() == []


@pytest.mark.nightly
def test_the_message_of_a_rule_that_refuses_a_job_is_passed_on(training, space):
    own = admin_in(training(), space)
    policies = client.AdmissionregistrationV1Api(own.lab.admin.api)
    rules = [{"apiGroups": ["batch"], "apiVersions": ["v1"], "resources": ["jobs"]}]
    rules[0]["operations"] = ["CREATE"]
    spec = {"matchConstraints": {"resourceRules": rules}, "failurePolicy": "Fail"}
    spec["validations"] = [{"expression": "false", "message": "no trainings on Fridays"}]
    where = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space}}}
    bound = {"policyName": space, "validationActions": ["Deny"], "matchResources": where}
    named = {"metadata": {"name": space}}
    policies.create_validating_admission_policy({**named, "spec": spec})
    policies.create_validating_admission_policy_binding({**named, "spec": bound})
    until(lambda: _refuses(own, space))
    with pytest.raises(JobRejectedError, match="no trainings on Fridays"):
        own.launch()
    policies.delete_validating_admission_policy(space)
    policies.delete_validating_admission_policy_binding(space)


def _refuses(own, namespace):
    """Whether the rule has reached the server's own copy."""
    from tests.integration.kubernetes.cluster import indexed_job

    try:
        create = own.lab.admin.batch.create_namespaced_job
        create(namespace, indexed_job("probe", ["true"]), dry_run="All")
    except client.ApiException:
        return True
    return False


@pytest.mark.nightly
def test_a_large_log_of_any_bytes_is_told_by_its_end_and_without_secrets(training):
    code = """
import sys


def main(job):
    for n in range(20_000):
        sys.stdout.buffer.write(b"%d \\x1b[31m\\xff password=hunter2 " % n + b"x" * 500 + b"\\n")
    sys.stdout.buffer.write(b"the very end\\n")
    sys.stdout.flush()
    return {"lines": 1}
"""
    own = training(code=code, ranks=1)
    launched = own.launch()
    own.finished(launched)
    of_pod = launched.launcher.logs(launched.record, rank=0, max_bytes=2000)
    assert of_pod.endswith("the very end\n")
    assert len(of_pod) <= 2000
    text = end_of_log(launched.record, launched.launcher, rank=0, max_bytes=2000)
    assert text.endswith("the very end")
    assert len(text) < 4000
    assert "hunter2" not in text
    assert "\\x1b" in text


@pytest.mark.nightly
def test_a_log_that_is_not_to_be_had_changes_nothing(training):
    own = training(code=WAITS, ranks=1)
    launched = own.launch()
    reached(launched)
    own.lab.service.kill("node")
    text = launched.launcher.logs(launched.record, rank=0, max_bytes=100)
    own.lab.service.start()
    own.lab.service.wait()
    assert "not to be had" in text
    own.finished(launched)
    with pytest.raises(JobKilledError, match="SIGKILL"):
        own.collect(launched)


@pytest.mark.nightly
def test_a_rank_that_runs_twice_leaves_one_result(training):
    own = training(code=WAITS, ranks=1)
    launched = own.launch()
    reached(launched)
    (_, made) = render(own.spec, own.env, own.interval)
    made["metadata"]["name"] = again = f"again-{uuid.uuid4().hex[:8]}"
    (launched.record.home / "reached-0").unlink()
    own.lab.admin.batch.create_namespaced_job(NAMESPACE, made)
    reached(launched)
    (launched.record.home / "go").touch()
    own.lab.ended(own.name)
    own.lab.ended(again)
    assert own.finished(launched).state is JobState.SUCCEEDED
    assert own.collect(launched)["metrics"] == {"ranks": 1.0}
    assert own.train()["verdict"] == "adopted"

"""Jobs of Kubeflow, run by its real operator: ranks start with what their framework looks for."""

from __future__ import annotations

import uuid

import pytest

from services.kubernetes import IMAGE, NAMESPACE
from tests.integration.kubernetes.cluster import until
from trainfeed.errors import JobFailedError, JobKilledError

# The first rank waits for the second, as it would in a reduction.
SECOND_FAILS = """
import threading


def main(job):
    if job.rank == 1:
        raise SystemExit(3)
    threading.Event().wait()
"""

# The second rank is killed at every start, and leaves the number of its starts.
SECOND_IS_KILLED = """
import os
import signal
import threading


def main(job):
    if job.rank == 1:
        with open(job.output.parent / "starts", "a") as starts:
            starts.write("x")
        os.kill(os.getpid(), signal.SIGKILL)
    threading.Event().wait()
"""

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def operator(lab):
    lab.service.operator.install()
    lab.service.operator.start()
    return lab


def _template(container, script):
    own = {"name": container, "image": IMAGE, "command": ["/bin/sh", "-c", script]}
    return {"spec": {"containers": [own], "automountServiceAccountToken": False}}


def _replicas(container, script, count):
    template = _template(container, script)
    return {"replicas": count, "restartPolicy": "Never", "template": template}


def _run(lab, kind, spec):
    """Make a job; returns its name and its last condition."""
    name, plural = f"test-{uuid.uuid4().hex[:10]}", f"{kind.lower()}s"
    place = ("kubeflow.org", "v1", NAMESPACE, plural)
    made = {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"runPolicy": {"backoffLimit": 0, "cleanPodPolicy": "None"}, **spec},
    }
    lab.admin.custom.create_namespaced_custom_object(*place, made, field_validation="Strict")

    def ended():
        found = lab.admin.custom.get_namespaced_custom_object(*place, name)
        conditions = found.get("status", {}).get("conditions", [])
        true = {each["type"] for each in conditions if each["status"] == "True"}
        return true & {"Succeeded", "Failed"}

    return name, until(ended).pop()


def _variables(lab, pod):
    text = lab.admin.core.read_namespaced_pod_log(pod, NAMESPACE)
    return dict(line.split("=", 1) for line in text.splitlines())


def test_a_pytorchjob_gives_its_ranks_a_number_and_the_place_of_the_first(operator):
    show = "env | grep -E '^(RANK|WORLD_SIZE|MASTER_)'"
    replicas = {"Master": _replicas("pytorch", show, 1), "Worker": _replicas("pytorch", show, 1)}
    name, ended = _run(operator, "PyTorchJob", {"pytorchReplicaSpecs": replicas})
    assert ended == "Succeeded"
    first, second = (_variables(operator, f"{name}-{part}-0") for part in ("master", "worker"))
    assert (first["RANK"], second["RANK"]) == ("0", "1")
    assert {first["WORLD_SIZE"], second["WORLD_SIZE"]} == {"2"}
    assert second["MASTER_ADDR"] == "127.0.0.1"
    assert second["MASTER_PORT"] == first["MASTER_PORT"]


def test_a_paddlejob_tells_its_ranks_how_many_they_are(operator):
    show = "env | grep -E '^(PADDLE|POD_IP)'"
    replicas = {"Worker": _replicas("paddle", show, 2)}
    name, ended = _run(operator, "PaddleJob", {"paddleReplicaSpecs": replicas})
    assert ended == "Succeeded"
    first = _variables(operator, f"{name}-worker-0")
    assert first["PADDLE_JOB_ID"] == name
    assert first["PADDLE_NNODES"] == "2"


def test_a_rank_that_fails_fails_its_pytorchjob(operator):
    replicas = {"Master": _replicas("pytorch", "exit 3", 1)}
    _, ended = _run(operator, "PyTorchJob", {"pytorchReplicaSpecs": replicas})
    assert ended == "Failed"


@pytest.mark.parametrize("launcher", ["pytorch-job", "paddle-job"])
def test_a_training_on_an_operator_has_two_ranks_and_a_result_that_verifies(
    operator, training, launcher
):
    own = training(launcher=launcher)
    report = own.train()
    assert (report["verdict"], report["metrics"]["ranks"]) == ("ran", 2)
    assert own.train()["verdict"] == "adopted"
    assert len(own.jobs()) == 1


@pytest.mark.parametrize("launcher", ["pytorch-job", "paddle-job"])
def test_a_failed_rank_of_an_operator_is_told_with_its_status(operator, training, launcher):
    own = training(launcher=launcher, code=SECOND_FAILS)
    with pytest.raises(JobFailedError, match="rank 1: it ended with status 3"):
        own.train()
    assert len(own.jobs()) == 1


@pytest.mark.parametrize("launcher", ["pytorch-job", "paddle-job"])
def test_a_rank_that_is_killed_at_every_start_is_started_again_as_often_as_allowed(
    operator, training, launcher
):
    own = training(launcher=launcher, code=SECOND_IS_KILLED, retries=2)
    with pytest.raises(JobKilledError, match=r"rank 1: .*more often than train\.retries allows"):
        own.train()
    home = own.launch().record.home
    assert (home / "starts").read_text() == "xxx"
    assert len(own.jobs()) == 1

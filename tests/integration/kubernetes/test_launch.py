"""A training on a real cluster: two ranks over a published version, and what ends them."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from services.kubernetes import IMAGE, NAMESPACE
from tests.integration.kubernetes.cluster import until
from trainfeed.errors import JobFailedError, JobKilledError, JobRejectedError
from trainfeed.training.jobs import JobState
from trainfeed.training.launch import look

# Says where it is, and goes on when the file is there.
WAITS = """
import time


def main(job):
    (job.output.parent / f"reached-{job.rank}").touch()
    while not (job.output.parent / "go").exists():
        time.sleep(0.05)
    return {"ranks": job.world_size}
"""


def reached(launched, rank=0):
    return until((launched.record.home / f"reached-{rank}").exists)


def pid_of(own, rank):
    """The process that the node runs for a rank."""
    (pod,) = (p for p in own.lab.pods(own.name) if p.metadata.name.startswith(f"{own.name}-{rank}"))
    return int(
        (own.lab.service.home / "pods/run" / f"{pod.metadata.uid}.pid").read_text().split()[0]
    )


def test_two_ranks_train_on_a_published_version_and_leave_a_result_that_verifies(training):
    own = training()
    launched = own.launch()
    assert own.finished(launched).state is JobState.SUCCEEDED
    report = own.collect(launched)
    assert report["verdict"] == "ran"
    assert report["metrics"]["ranks"] == 2
    assert report["metrics"]["samples"] > 0
    assert own.train()["verdict"] == "adopted"
    assert len(own.jobs()) == 1


def test_a_job_that_is_complete_without_a_result_has_failed(training):
    own = training(entry=None, image=IMAGE, command=["true"])
    with pytest.raises(JobFailedError, match="left no result"):
        own.train()


@pytest.mark.nightly
def test_a_job_that_is_deleted_is_gone_and_one_with_a_result_has_succeeded(training):
    own = training()
    launched = own.launch()
    own.finished(launched)
    own.lab.admin.batch.delete_namespaced_job(own.name, NAMESPACE, propagation_policy="Background")
    until(lambda: not own.jobs())
    assert own.train()["verdict"] == "adopted"


@pytest.mark.nightly
def test_a_job_that_is_deleted_before_its_end_is_never_a_success(training):
    own = training(code=WAITS)
    launched = own.launch()
    reached(launched)
    own.lab.admin.batch.delete_namespaced_job(own.name, NAMESPACE, propagation_policy="Background")
    assert own.finished(launched).state is JobState.UNKNOWN
    with pytest.raises(JobFailedError, match="is gone"):
        own.collect(launched)
    with pytest.raises(JobFailedError, match="is gone"):
        own.train()
    assert own.jobs() == []


@pytest.mark.nightly
def test_a_killed_rank_is_told_as_killed_and_another_attempt_needs_a_reason(training):
    own = training(code=WAITS)
    launched = own.launch()
    reached(launched, rank=1)
    os.kill(pid_of(own, 1), signal.SIGKILL)
    assert own.finished(launched).state is JobState.KILLED
    for _ in range(2):
        with pytest.raises(JobKilledError, match=r"rank 1: ended by SIGKILL"):
            own.train()
    (launched.record.home / "go").touch()
    assert own.train(again="the machine is repaired")["metrics"] == {"ranks": 2}
    assert own.train(again="the machine is repaired")["verdict"] == "adopted"
    assert len(own.jobs()) == 2  # the failed attempt and its successor


@pytest.mark.nightly
def test_a_killed_rank_is_started_again_alone_where_retries_are_allowed(training):
    own = training(code=WAITS, retries=2)
    launched = own.launch()
    reached(launched, rank=1)
    os.kill(pid_of(own, 1), signal.SIGKILL)
    (launched.record.home / "go").touch()
    assert own.finished(launched).state is JobState.SUCCEEDED
    assert own.collect(launched)["metrics"] == {"ranks": 2}
    assert len(own.jobs()) == 1
    assert len(own.lab.pods(own.name)) == 3


@pytest.mark.nightly
def test_a_job_in_a_queue_waits_until_the_queue_admits_it(training):
    own = training(queue="trainings", ranks=1)
    launched = own.launch()
    assert look(launched).state is JobState.WAITING
    assert own.lab.pods(own.name) == []
    # There is no Kueue here: this is what it does to a job that it admits.
    admitted = {"spec": {"suspend": False}}
    own.lab.admin.batch.patch_namespaced_job(own.name, NAMESPACE, admitted)
    assert own.finished(launched).state is JobState.SUCCEEDED
    (job,) = own.jobs()
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "trainings"


@pytest.mark.nightly
def test_a_cancelled_job_ends_with_its_processes_and_is_told_as_cancelled(training):
    own = training(code=WAITS)
    launched = own.launch()
    reached(launched)
    pid = pid_of(own, 0)
    launched.launcher.cancel(launched.record)
    until(lambda: not Path(f"/proc/{pid}").exists())
    with pytest.raises(JobFailedError, match="was cancelled"):
        own.train()
    assert own.jobs() == []


@pytest.mark.nightly
def test_of_two_launches_at_once_one_makes_the_job_and_both_have_its_result(training):
    own = training()
    reports = []
    threads = [threading.Thread(target=lambda: reports.append(own.train())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(report["verdict"] for report in reports) == ["adopted", "ran"]
    assert len(own.jobs()) == 1


@pytest.mark.nightly
def test_variables_of_the_data_set_reach_a_rank_as_they_are_written(training):
    hostile = {
        "A": "$(PATH) $$ $HOME",
        "B": "{{ x }} &a *a !!python",
        "C": "line\nline; rm -rf '\"",
    }
    code = f"import os\n\n\ndef main(job):\n    wanted = {hostile!r}\n"
    code += "    return {'same': all(os.environ[k] == v for k, v in wanted.items())}\n"
    own = training(code=code, environment=hostile, ranks=1)
    assert own.train()["metrics"] == {"same": 1.0}


@pytest.mark.nightly
def test_user_code_has_no_credentials_of_the_cluster(training):
    code = """
import os


def main(job):
    found = [n for n in os.environ if "TOKEN" in n or "KUBE" in n or "SECRET" in n]
    return {"found": len(found), "mounted": os.path.exists("/var/run/secrets/kubernetes.io")}
"""
    own = training(code=code, ranks=1)
    assert own.train()["metrics"] == {"found": 0.0, "mounted": 0.0}
    (pod,) = own.lab.pods(own.name)
    assert [v.name for v in pod.spec.volumes if v.projected or v.secret] == []


def test_an_image_that_the_installation_does_not_name_is_refused_before_anything_is_made(training):
    own = training(image=f"other/trainer@sha256:{'1' * 64}")
    with pytest.raises(JobRejectedError, match="expected an image that the installation allows"):
        own.launch()
    wanted = {"label_selector": "app.kubernetes.io/managed-by=trainfeed"}
    everything = own.lab.admin.batch.list_namespaced_job(NAMESPACE, **wanted).items
    assert not [job for job in everything if "other/trainer" in str(job.spec)]

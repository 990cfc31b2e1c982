"""The cluster as a service: real Jobs, whose pods are processes that are seen, read and ended."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from kubernetes import client

from services.kubernetes import NAMESPACE, STRANGER, USER
from tests.integration.kubernetes.cluster import indexed_job, until


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def _pids(lab, name, count):
    """Processes that the pods of a Job print, once there are so many."""
    return [int(word) for word in until(lambda: _words(lab, name, count))]


def _words(lab, name, count):
    if len(lab.pods(name)) == 0 or any(p.status.phase != "Running" for p in lab.pods(name)):
        return None
    words = lab.log(name).split()
    return words if len(words) == count else None


def test_a_job_of_two_ranks_completes_and_its_logs_are_read_through_the_api_server(lab):
    name = lab.job('echo "rank $JOB_COMPLETION_INDEX"', ranks=2)
    assert lab.ended(name) == "Complete"
    assert lab.log(name) == "rank 0\nrank 1\n"
    (first, _) = lab.pods(name)
    read = lab.admin.core.read_namespaced_pod_log
    assert read(first.metadata.name, NAMESPACE, limit_bytes=4) == "rank"


def test_the_last_lines_of_a_long_log_are_read_alone(lab):
    name = lab.job("seq 100000")
    assert lab.ended(name) == "Complete"
    (pod,) = lab.pods(name)
    read = lab.admin.core.read_namespaced_pod_log
    assert read(pod.metadata.name, NAMESPACE, tail_lines=2) == "99999\n100000\n"


def test_a_rank_that_fails_fails_its_job_and_its_exit_code_is_told(lab):
    name = lab.job("exit 3")
    assert lab.ended(name) == "Failed"
    (pod,) = lab.pods(name)
    assert pod.status.container_statuses[0].state.terminated.exit_code == 3


def test_a_deleted_job_takes_the_whole_session_of_its_ranks_with_it(lab):
    name = lab.job("sleep 1000 & echo $$$$ $!; trap '' TERM; wait; sleep 1000", ranks=1)
    pids = _pids(lab, name, 2)
    assert all(map(_alive, pids))
    lab.admin.batch.delete_namespaced_job(name, NAMESPACE, propagation_policy="Background")
    until(lambda: not any(map(_alive, pids)))
    until(lambda: not lab.pods(name))


def test_what_a_rank_leaves_running_ends_with_it(lab):
    name = lab.job("sleep 1000 & echo $!")
    assert lab.ended(name) == "Complete"
    assert not _alive(int(lab.log(name)))


def test_a_pod_reads_its_config_map_where_it_is_mounted_and_its_own_labels(lab):
    core, config = lab.admin.core, f"code-{uuid.uuid4().hex[:8]}"
    data = {"train.py": "print('the code')\n"}
    core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": config}, "data": data})
    items = [{"key": "train.py", "path": "below/train.py"}]
    name = lab.job(
        "python /trainfeed/code/below/train.py; echo $(INDEX) $PLACE $$$$",
        env=[
            {"name": "INDEX", "valueFrom": {"fieldRef": {"fieldPath": _INDEX_LABEL}}},
            {"name": "PLACE", "value": "/trainfeed/code:rest"},
        ],
        volumeMounts=[{"name": "code", "mountPath": "/trainfeed/code"}],
        pod={"volumes": [{"name": "code", "configMap": {"name": config, "items": items}}]},
    )
    assert lab.ended(name) == "Complete"
    said, index, place, pid = lab.log(name).replace("\n", " ").rsplit(" ", 4)[:4]
    assert (said, index) == ("the code", "0")
    assert place.endswith("volumes/code:rest")
    assert pid.isdigit()


_INDEX_LABEL = "metadata.labels['batch.kubernetes.io/job-completion-index']"


def test_a_pod_has_nothing_of_the_environment_of_the_node(lab):
    name = lab.job("env")
    assert lab.ended(name) == "Complete"
    names = {line.partition("=")[0] for line in lab.log(name).splitlines()}
    image = {"PATH", "PYTHONPATH", "PYTHONUNBUFFERED", "HOME", "LANG"}
    assert names - image - {"PWD", "OLDPWD", "SHLVL", "_"} == {"JOB_COMPLETION_INDEX"}


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ({"image": "trainfeed/misspelt:1"}, "ImagePullBackOff"),
        ({"envFrom": [{"secretRef": {"name": "missing"}}]}, "CreateContainerConfigError"),
    ],
)
def test_a_pod_that_cannot_start_waits_and_says_why(lab, wanted, reason):
    name = lab.job("true", **wanted)
    (pod,) = until(lambda: [p for p in lab.pods(name) if p.status.container_statuses])
    assert pod.status.container_statuses[0].state.waiting.reason == reason
    lab.admin.batch.delete_namespaced_job(name, NAMESPACE, propagation_policy="Background")
    until(lambda: not lab.pods(name))


def test_a_pod_that_asks_for_a_device_waits_for_a_node(lab):
    name = lab.job("true", resources={"limits": {"nvidia.com/gpu": "1"}})
    (pod,) = until(lambda: [p for p in lab.pods(name) if p.status.conditions])
    assert (pod.status.phase, pod.status.conditions[0].reason) == ("Pending", "Unschedulable")
    lab.admin.batch.delete_namespaced_job(name, NAMESPACE, propagation_policy="Background")


def test_the_role_of_the_documentation_makes_jobs_and_reads_no_secret(lab):
    user, name = lab.account(USER), f"test-{uuid.uuid4().hex[:10]}"
    user.batch.create_namespaced_job(NAMESPACE, indexed_job(name, ["true"]))
    assert lab.ended(name) == "Complete"
    (pod,) = lab.pods(name)
    assert user.core.read_namespaced_pod_log(pod.metadata.name, NAMESPACE) == ""
    for refused in (
        lambda: user.core.list_namespaced_secret(NAMESPACE),
        lambda: user.batch.list_namespaced_job("default"),
        user.core.list_node,
        lambda: lab.account(STRANGER).batch.list_namespaced_job(NAMESPACE),
    ):
        with pytest.raises(client.ApiException) as error:
            refused()
        assert error.value.status == 403


def test_the_node_gives_no_log_to_a_caller_without_the_certificate(lab):
    import ssl
    import urllib.request

    address = f"https://127.0.0.1:{lab.service.ports['node']}/containerLogs/{NAMESPACE}/a/trainer"
    trust = ssl.create_default_context(cafile=str(lab.service.files.certificate))
    with pytest.raises(OSError, match=r"certificate required|reset|EOF|closed"):
        urllib.request.urlopen(address, timeout=10, context=trust).read()


@pytest.mark.nightly
def test_killed_parts_come_back_and_the_job_goes_on(lab):
    name = lab.job("until [ -e $HOME/go ]; do sleep 0.1; done")
    (pod,) = until(lambda: [p for p in lab.pods(name) if p.status.phase == "Running"])
    for part in ("apiserver", "controllers", "etcd"):
        lab.service.kill(part)
    lab.service.start()
    lab.service.wait()
    (lab.service.home / "pods" / pod.metadata.uid / "go").touch()
    assert lab.ended(name) == "Complete"


@pytest.mark.nightly
def test_a_pod_of_a_killed_node_is_ended_and_told_as_lost(lab):
    name = lab.job("echo $$$$; sleep 1000")
    (pid,) = _pids(lab, name, 1)
    lab.service.kill("node")
    assert _alive(pid)
    lab.service.start()
    lab.service.wait()
    assert lab.ended(name) == "Failed"
    assert not _alive(pid)
    (pod,) = lab.pods(name)
    ended = pod.status.container_statuses[0].state.terminated
    assert (ended.exit_code, ended.reason) == (137, "ContainerStatusUnknown")

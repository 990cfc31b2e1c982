"""The published schemas are those of the table, and read strictly they refuse what is misspelt."""

from __future__ import annotations

import copy
import hashlib
import re

import pytest

from tests.kubernetes_schemas import THIRD_PARTY, problems

_ROW = re.compile(r"^\| `(?P<file>[^`]+)` \|.*\| `(?P<digest>[0-9a-f]{64})` \|$", re.MULTILINE)
_CONTAINER = {"name": "trainer", "image": "trainer@sha256:" + "0" * 64, "command": ["true"]}
_POD = {"spec": {"restartPolicy": "Never", "containers": [_CONTAINER]}}
_JOB = {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "template": _POD}
_REPLICA = {"replicas": 1, "restartPolicy": "Never", "template": _POD}
_JOBS = {"replicatedJobs": [{"name": "ranks", "replicas": 1, "template": {"spec": _JOB}}]}
_TRAINER = {"image": "trainer", "command": ["true"], "numNodes": 2}


def _object(api_version, kind, spec):
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, "spec": spec}


OBJECTS = {
    "Job": _object("batch/v1", "Job", _JOB),
    "Service": _object("v1", "Service", {"clusterIP": "None", "selector": {"a": "b"}}),
    "PyTorchJob": _object(
        "kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": {"Master": _REPLICA}}
    ),
    "PaddleJob": _object(
        "kubeflow.org/v1", "PaddleJob", {"paddleReplicaSpecs": {"Worker": _REPLICA}}
    ),
    "TrainJob": _object(
        "trainer.kubeflow.org/v1alpha1",
        "TrainJob",
        {"runtimeRef": {"name": "torch-distributed"}, "trainer": _TRAINER},
    ),
    "JobSet": _object("jobset.x-k8s.io/v1alpha2", "JobSet", _JOBS),
}


def _folders_of(found, path=()):
    """Every object below ``found``, by the keys that lead to it."""
    items = found.items() if isinstance(found, dict) else enumerate(found)
    if isinstance(found, dict):
        yield path
    for key, below in items:
        if isinstance(below, dict | list):
            yield from _folders_of(below, (*path, key))


def test_every_file_of_others_has_the_digest_of_the_table():
    table = dict(_ROW.findall((THIRD_PARTY / "README.md").read_text()))
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in THIRD_PARTY.iterdir()
        if path.name != "README.md"
    }
    assert found == table


@pytest.mark.parametrize("kind", OBJECTS)
def test_a_plain_object_of_each_kind_has_no_problem(kind):
    assert problems(OBJECTS[kind]) == []


@pytest.mark.parametrize("kind", OBJECTS)
def test_a_field_that_a_kind_does_not_know_is_refused_wherever_it_stands(kind):
    free = {"selector", "pytorchReplicaSpecs", "paddleReplicaSpecs"}
    for path in _folders_of(OBJECTS[kind]):
        if path and path[-1] in free:
            continue  # maps with keys of the user
        broken = copy.deepcopy(OBJECTS[kind])
        place = broken
        for key in path:
            place = place[key]
        place["misspelt"] = 1
        assert any("misspelt" in problem for problem in problems(broken)), path


@pytest.mark.parametrize("kind", ["Job", "PyTorchJob", "PaddleJob", "JobSet"])
def test_an_environment_variable_that_is_a_number_is_refused(kind):
    broken = copy.deepcopy(OBJECTS[kind])
    pods = [broken]
    while not (isinstance(pods[0], dict) and "containers" in pods[0]):
        found = pods.pop(0)
        below = found.values() if isinstance(found, dict) else found
        pods.extend(each for each in below if isinstance(each, dict | list))
    pods[0]["containers"] = [{**_CONTAINER, "env": [{"name": "RANK", "value": 0}]}]
    assert any("0 is not of type 'string'" in problem for problem in problems(broken))

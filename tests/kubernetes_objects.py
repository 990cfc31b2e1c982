"""The smallest object of each kind that a launcher may make, to hold all kinds to one rule."""

from __future__ import annotations

__all__ = ["CONTAINER", "OBJECTS"]

CONTAINER = {"name": "trainer", "image": "trainer@sha256:" + "0" * 64, "command": ["true"]}
_POD = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
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

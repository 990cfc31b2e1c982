"""Indexed Jobs, JobSets and TrainJobs: the kinds whose ranks are the indexes of an Indexed Job."""

from __future__ import annotations

from typing import Any, Final

from trainfeed.jobs._rank_status import RETRYABLE
from trainfeed.jobs.kubernetes._pod import FieldOfPod, RankPod
from trainfeed.jobs.kubernetes._rendering import PORT, JobPlan, rank_pod

__all__ = ["indexed_job", "job_set", "train_job"]

_CONTAINER: Final = "trainer"
_RANKS: Final = "ranks"
# In the runtime of a TrainJob: name of the replicated job that trains, and of its container.
_NODE: Final = "node"
_INDEX: Final = FieldOfPod("metadata.annotations['batch.kubernetes.io/job-completion-index']")
# Exit statuses that count as a restart: a passing fault, SIGKILL, SIGTERM.
_FROM_OUTSIDE: Final = [RETRYABLE, 128 + 9, 128 + 15]
_HOUR_S: Final = 3600


def indexed_job(plan: JobPlan) -> dict[str, Any]:
    """Return the Job; ranks find each other by the service of the plan, if there are several."""
    first = f"{plan.name}-0.{plan.name}"
    subdomain = plan.name if plan.job.ranks > 1 else None
    pod = rank_pod(plan, container=_CONTAINER, rank=_rank(plan, first), subdomain=subdomain)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": plan.job_metadata(),
        "spec": {
            **_job(plan, pod),
            **_suspended(plan),
            "ttlSecondsAfterFinished": plan.settings.keep_hours * _HOUR_S,
        },
    }


def job_set(plan: JobPlan) -> dict[str, Any]:
    """Return the JobSet, with one replicated job; the cluster makes the service of its ranks.

    A restart starts all ranks again: a collective training cannot continue with one new rank.
    """
    first = f"{plan.name}-{_RANKS}-0-0.{plan.name}"
    pod = rank_pod(plan, container=_CONTAINER, rank=_rank(plan, first))
    job = {**_job(plan, pod), "backoffLimit": 0}
    job.pop("backoffLimitPerIndex", None)
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": plan.job_metadata(),
        "spec": {
            **_suspended(plan),
            "network": {"enableDNSHostnames": True, "subdomain": plan.name},
            "failurePolicy": {
                "maxRestarts": plan.placement.retries,
                "rules": [
                    {
                        "name": "ownFailure",
                        "action": "FailJobSet",
                        "onJobFailureReasons": ["PodFailurePolicy", "DeadlineExceeded"],
                    }
                ],
            },
            "replicatedJobs": [{"name": _RANKS, "replicas": 1, "template": {"spec": job}}],
            "ttlSecondsAfterFinished": plan.settings.keep_hours * _HOUR_S,
        },
    }


def train_job(plan: JobPlan) -> dict[str, Any]:
    """Return the TrainJob; all else comes from its runtime, which the installation owns."""
    pod = rank_pod(plan, container=_NODE, rank={"PADDLE_TRAINER_ID": _INDEX})
    override = {
        "targetJobs": [{"name": _NODE}],
        "volumes": pod.volumes(),
        "nodeSelector": dict(plan.placement.node_selector),
        "tolerations": list(plan.placement.tolerations),
        "containers": [{"name": _NODE, "volumeMounts": pod.volume_mounts()}],
    }
    account = plan.settings.service_account
    marks = plan.metadata()
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": plan.job_metadata(),
        "spec": {
            "runtimeRef": {"name": plan.settings.runtime},
            "labels": marks["labels"],
            "annotations": marks["annotations"],
            **_suspended(plan),
            "trainer": {
                "image": pod.image,
                "command": pod.arguments(),
                "env": pod.variables(),
                "numNodes": plan.job.ranks,
                "resourcesPerNode": pod.resources(),
            },
            "podSpecOverrides": [
                {**override, **({"serviceAccountName": account} if account else {})}
            ],
        },
    }


def _rank(plan: JobPlan, first: str) -> dict[str, str | FieldOfPod]:
    address = first if plan.job.ranks > 1 else "127.0.0.1"
    return {
        "RANK": _INDEX,
        "WORLD_SIZE": str(plan.job.ranks),
        "MASTER_ADDR": address,
        "MASTER_PORT": str(PORT),
        "PADDLE_TRAINER_ID": _INDEX,
        "PADDLE_MASTER": f"{address}:{PORT}",
    }


def _job(plan: JobPlan, pod: RankPod) -> dict[str, Any]:
    """Return the ``spec`` of an Indexed Job with one index per rank."""
    retries, limit = plan.placement.retries, plan.placement.time_limit_s
    backoff = {"backoffLimitPerIndex": retries} if retries else {"backoffLimit": 0}
    return {
        "completionMode": "Indexed",
        "completions": plan.job.ranks,
        "parallelism": plan.job.ranks,
        **backoff,
        "podFailurePolicy": _failure_policy(),
        **({} if limit is None else {"activeDeadlineSeconds": limit}),
        "template": pod.template(),
    }


def _failure_policy() -> dict[str, Any]:
    """Return the rules: an end from outside counts as a retry, any other failure ends the job."""
    disrupted = [{"type": "DisruptionTarget", "status": "True"}]
    codes = {"containerName": _CONTAINER, "operator": "NotIn", "values": _FROM_OUTSIDE}
    return {
        "rules": [
            {"action": "Count", "onPodConditions": disrupted},
            {"action": "FailJob", "onExitCodes": codes},
        ]
    }


def _suspended(plan: JobPlan) -> dict[str, bool]:
    return {"suspend": True} if plan.placement.queue else {}

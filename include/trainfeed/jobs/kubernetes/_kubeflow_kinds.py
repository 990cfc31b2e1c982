"""PyTorchJobs and PaddleJobs, which Kubeflow's training operator runs.

The operator (1.9) starts a rank again after every signal: it deletes the pod, and with the pod the
count of restarts that it compares with ``backoffLimit``. The ranks therefore count their starts
themselves.
"""

from __future__ import annotations

from typing import Any, Final

from trainfeed.config import JOB_RETRIES
from trainfeed.jobs.kubernetes._pod import FieldOfPod, RankPod
from trainfeed.jobs.kubernetes._rendering import PORT, JobPlan, rank_pod

__all__ = ["paddle_job", "pytorch_job"]

_INDEX: Final = FieldOfPod("metadata.labels['training.kubeflow.org/replica-index']")
_HOUR_S: Final = 3600


def pytorch_job(plan: JobPlan) -> dict[str, Any]:
    """Return the PyTorchJob: a master and workers.

    The operator sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.
    """
    pod = rank_pod(plan, container="pytorch", rank=_retries(plan))
    replicas = {"Master": _replica(plan, pod, 1)}
    if plan.job.ranks > 1:
        replicas["Worker"] = _replica(plan, pod, plan.job.ranks - 1)
    return _job(plan, "PyTorchJob", {"pytorchReplicaSpecs": replicas})


def paddle_job(plan: JobPlan) -> dict[str, Any]:
    """Return the PaddleJob; the operator sets no rank, so ranks read it from their pod's label."""
    rank: dict[str, str | FieldOfPod] = {
        "RANK": _INDEX,
        "WORLD_SIZE": str(plan.job.ranks),
        "MASTER_ADDR": f"{plan.name}-worker-0",
        "MASTER_PORT": str(PORT),
        "PADDLE_TRAINER_ID": _INDEX,
        **_retries(plan),
    }
    pod = rank_pod(plan, container="paddle", rank=rank)
    return _job(
        plan, "PaddleJob", {"paddleReplicaSpecs": {"Worker": _replica(plan, pod, plan.job.ranks)}}
    )


def _retries(plan: JobPlan) -> dict[str, str | FieldOfPod]:
    retries = plan.placement.retries
    return {JOB_RETRIES: str(retries)} if retries else {}


def _replica(plan: JobPlan, pod: RankPod, number: int) -> dict[str, Any]:
    template = pod.template()
    # The replica has the restart policy; the operator warns if the pod has one, too.
    del template["spec"]["restartPolicy"]
    # ExitCode: a rank whose status is 128 or more, so was ended by a signal, is started again.
    policy = "ExitCode" if plan.placement.retries else "Never"
    return {"replicas": number, "restartPolicy": policy, "template": template}


def _job(plan: JobPlan, kind: str, replicas: dict[str, Any]) -> dict[str, Any]:
    limit, retries = plan.placement.time_limit_s, plan.placement.retries
    policy = {
        # With backoffLimit 0 the operator would remove the pods, and with them the reason of an
        # end, so the field is left out.
        **({"backoffLimit": retries} if retries else {}),
        "cleanPodPolicy": "Running",
        "ttlSecondsAfterFinished": plan.settings.keep_hours * _HOUR_S,
        **({} if limit is None else {"activeDeadlineSeconds": limit}),
        **({"suspend": True} if plan.placement.queue else {}),
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": plan.job_metadata(),
        "spec": {"runPolicy": policy, **replicas},
    }

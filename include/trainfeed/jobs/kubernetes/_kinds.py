"""The kinds of jobs on a cluster: path on the API server, function that builds the object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from trainfeed.errors import ConfigError
from trainfeed.jobs.kubernetes._batch_kinds import indexed_job, job_set, train_job
from trainfeed.jobs.kubernetes._kubeflow_kinds import paddle_job, pytorch_job
from trainfeed.jobs.kubernetes._object_names import JOB_LABEL
from trainfeed.jobs.kubernetes._rendering import JobPlan

__all__ = ["CONFIG_MAPS", "SERVICES", "JobKind", "kind_of"]

CONFIG_MAPS: Final = "/api/v1/configmaps"
SERVICES: Final = "/api/v1/services"


@dataclass(frozen=True)
class JobKind:
    """One kind of job.

    Attributes:
        launcher: Name of the kind, a value of ``train.launcher``.
        collection: Path of the kind's objects on the API server: group, version, plural name.
        build: Returns the object of a job.
        pod_label: Label that selects the job's pods; its value is the name of the job's object.
        statuses: Field of the status that lists the counts of ready and active pods; None when the
            counts are in the status itself.
        wants_service: Whether trainfeed makes the service by which ranks find each other.
    """

    launcher: str
    collection: str
    build: Callable[[JobPlan], dict[str, Any]]
    pod_label: str = JOB_LABEL
    statuses: str | None = None
    wants_service: bool = False

    def manifests(self, plan: JobPlan) -> list[tuple[str, dict[str, Any]]]:
        """Return all objects of a job, each with its collection; the job itself comes last."""
        config_map = plan.config_map()
        found = [] if config_map is None else [(CONFIG_MAPS, config_map)]
        if self.wants_service and plan.job.ranks > 1:
            found.append((SERVICES, plan.service()))
        return [*found, (self.collection, self.build(plan))]


_KINDS: Final[Mapping[str, JobKind]] = {
    kind.launcher: kind
    for kind in (
        JobKind("indexed-job", "/apis/batch/v1/jobs", indexed_job, wants_service=True),
        JobKind("pytorch-job", "/apis/kubeflow.org/v1/pytorchjobs", pytorch_job),
        JobKind("paddle-job", "/apis/kubeflow.org/v1/paddlejobs", paddle_job),
        JobKind(
            "train-job",
            "/apis/trainer.kubeflow.org/v1alpha1/trainjobs",
            train_job,
            # The labels of a TrainJob reach its JobSet, not the pods.
            pod_label="jobset.sigs.k8s.io/jobset-name",
            statuses="jobsStatus",
        ),
        JobKind(
            "job-set",
            "/apis/jobset.x-k8s.io/v1alpha2/jobsets",
            job_set,
            statuses="replicatedJobsStatus",
        ),
    )
}


def kind_of(launcher: str) -> JobKind:
    """Return the kind of a launcher.

    Raises:
        ConfigError: There is no kind of that name.
    """
    if launcher not in _KINDS:
        raise ConfigError(f"expected a launcher of {', '.join(_KINDS)}, got {launcher!r}")
    return _KINDS[launcher]

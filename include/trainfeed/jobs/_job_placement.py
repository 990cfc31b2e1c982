"""The resources and the place of a job's ranks on a cluster; no part of the job's identity."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["JobModel", "JobPlacement"]


class JobModel(BaseModel):
    """Base of the parts of a job file: immutable, strict types, no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class JobPlacement(JobModel):
    """The part of a job that a launcher on a cluster reads.

    Attributes:
        launcher: Kind of the job on the cluster, a value of ``train.launcher``.
        connection: Id of the cluster's connection.
        cpu: Number of processors of a rank, a fraction if need be.
        memory_bytes: Memory of a rank.
        gpu_type: Resource name of the accelerators, such as ``nvidia.com/gpu``.
        gpu_number: Number of accelerators of a rank.
        shared_memory_bytes: Size of ``/dev/shm`` of a rank.
        volumes: Names of volumes that the installation allows.
        node_selector: Labels, name to value, of the machines that may run ranks.
        tolerations: Tolerations of the pod, in the form of Kubernetes.
        image_pull_secret: Name of the secret for the image's registry.
        queue: Name of the Kueue queue.
        priority: Name of the priority class.
        time_limit_s: Seconds after which the cluster ends the job.
        retries: Largest number of restarts after ranks that were ended from outside.
    """

    launcher: str
    connection: str
    cpu: float | None = None
    memory_bytes: int | None = None
    gpu_type: str | None = None
    gpu_number: Annotated[int, Field(ge=0)] = 0
    shared_memory_bytes: int | None = None
    volumes: list[str] = Field(default_factory=list)
    node_selector: dict[str, str] = Field(default_factory=dict)
    tolerations: list[dict[str, str]] = Field(default_factory=list)
    image_pull_secret: str | None = None
    queue: str | None = None
    priority: str | None = None
    time_limit_s: int | None = None
    retries: int = 0

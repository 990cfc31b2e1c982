"""Where and with what the ranks of a job run; nothing here changes what a job is."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["JobModel", "JobPlacement"]


class JobModel(BaseModel):
    """Frozen, strict, and closed: what job files are made of."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class JobPlacement(JobModel):
    """The part of a job that a launcher on a cluster reads.

    Attributes:
        launcher: Kind of the cluster's job, as ``train.launcher`` has it.
        connection: Id of the cluster's connection.
        cpu: Processors of a rank.
        memory_bytes: Memory of a rank.
        gpu_type: Resource name of its accelerators.
        gpu_number: How many of them.
        shared_memory_bytes: Size of ``/dev/shm``.
        volumes: Names of volumes that the installation allows.
        node_selector: Labels of the machines.
        tolerations: As Kubernetes has them.
        image_pull_secret: Name of the secret of the image's registry.
        queue: Name of the Kueue queue.
        priority: Name of the priority class.
        time_limit_s: Seconds after which the cluster ends the job.
        retries: Restarts of a rank that was ended from outside.
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

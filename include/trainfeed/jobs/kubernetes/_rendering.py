"""The parts of a job's objects that all kinds share: metadata, code, service, pod of a rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from trainfeed.config import JOB_CODE, JOB_ROOT, PUBLIC_FOLDER
from trainfeed.jobs._job_placement import JobPlacement
from trainfeed.jobs._job_spec import JobSpec
from trainfeed.jobs.kubernetes._cluster_settings import ClusterSettings
from trainfeed.jobs.kubernetes._object_names import (
    CODE,
    JOB_LABEL,
    QUEUE_LABEL,
    marks,
    object_name,
)
from trainfeed.jobs.kubernetes._pod import CODE_PATH, FieldOfPod, Mount, RankPod

__all__ = ["PORT", "JobPlan", "rank_pod"]

PORT: Final = 29_500
_RUNTIME: Final = ("python", "-m", "trainfeed.training.runtime")


@dataclass(frozen=True)
class JobPlan:
    """A job, with everything that its objects are made from.

    Attributes:
        job: The job; it has a placement.
        placement: The placement of ``job``.
        settings: Settings of the cluster.
        home: The job's folder, relative to the publication root.
        code: Text of each file by name, for a ConfigMap; None when the code is a folder below the
            publication root.
        code_folder: That folder, relative to the publication root; None when ``code`` is given.
    """

    job: JobSpec
    placement: JobPlacement
    settings: ClusterSettings
    home: str
    code: Mapping[str, str] | None
    code_folder: str | None

    @property
    def name(self) -> str:
        """Name of all objects of the job."""
        return object_name(self.job)

    def metadata(self) -> dict[str, Any]:
        """Return name, namespace, labels and annotations for any object of the job."""
        return {"name": self.name, "namespace": self.settings.namespace, **marks(self.job)}

    def job_metadata(self) -> dict[str, Any]:
        """Return the metadata of the job itself, which has the label of its queue in addition."""
        metadata = self.metadata()
        if self.placement.queue:
            metadata["labels"] = {**metadata["labels"], QUEUE_LABEL: self.placement.queue}
        return metadata

    def config_map(self) -> dict[str, Any] | None:
        """Return the ConfigMap of the code, or None when the code is a folder."""
        if self.code is None:
            return None
        metadata = self.metadata()
        metadata["annotations"] = {**metadata["annotations"], CODE: self.job.code}
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "immutable": True,
            "data": dict(sorted(self.code.items())),
        }

    def service(self) -> dict[str, Any]:
        """Return the headless service; ranks find each other by it, also before they are ready."""
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": self.metadata(),
            "spec": {
                "clusterIP": "None",
                "publishNotReadyAddresses": True,
                "selector": {JOB_LABEL: self.name},
                "ports": [{"name": "rendezvous", "port": PORT}],
            },
        }


def rank_pod(
    plan: JobPlan,
    *,
    container: str,
    rank: Mapping[str, str | FieldOfPod],
    subdomain: str | None = None,
) -> RankPod:
    """Return the pod of a rank.

    Args:
        plan: The job.
        container: Name of the container.
        rank: Variables with the number of the rank and the address of rank 0, for this kind.
        subdomain: Name of the service of the ranks.
    """
    job = plan.job
    return RankPod(
        container=container,
        image=plan.settings.image_of(job.image),
        command=job.command or _RUNTIME,
        environment={**job.environment, **_environment(plan), **rank},
        mounts=_mounts(plan),
        placement=plan.placement,
        settings=plan.settings,
        marks=marks(job),
        subdomain=subdomain,
    )


def _environment(plan: JobPlan) -> dict[str, str]:
    """Return the variables that ranks of all kinds get; some have the names of PaddleCloud."""
    job, root = plan.job, plan.settings.root.path
    code = CODE_PATH if plan.code is not None else f"{root}/{plan.code_folder}"
    return {
        "TRAINFEED_JOB": f"{root}/{plan.home}",
        JOB_ROOT: root,
        JOB_CODE: code,
        "TRAINFEED_VERSIONS": ":".join(f"{root}/{version.path}" for version in job.versions),
        "TRAINFEED_MANIFESTS": ":".join(version.manifest_sha256 for version in job.versions),
        "TRAINFEED_SEED": str(job.seed),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "PADDLE_JOB_NAME": plan.name,
        "PADDLE_TRAINERS": str(job.ranks),
        "PADDLE_TRAINERS_NUM": str(job.ranks),
        "TRAINERS": str(job.ranks),
        **({"ENTRY": job.entry} if job.entry else {}),
        **({PUBLIC_FOLDER: public.path} if (public := plan.settings.public) else {}),
    }


def _mounts(plan: JobPlan) -> list[Mount]:
    settings, place = plan.settings, plan.placement
    root = Mount.of("trainfeed-root", settings.root)
    mounts = [root] if root is not None else []
    if settings.public is not None:
        public = Mount.of("trainfeed-public", settings.public, read_only=True)
        mounts += [public] if public is not None else []
    if plan.code is not None:
        source = {"configMap": {"name": plan.name}}
        mounts.append(Mount("trainfeed-code", CODE_PATH, source, read_only=True))
    if place.shared_memory_bytes is not None:
        memory = {"emptyDir": {"medium": "Memory", "sizeLimit": str(place.shared_memory_bytes)}}
        mounts.append(Mount("shared-memory", "/dev/shm", memory))  # noqa: S108 - of the pod
    for number, name in enumerate(place.volumes):
        volume = settings.volume(name)
        mount = Mount.of(f"volume-{number}", volume, read_only=volume.read_only)
        mounts += [mount] if mount is not None else []
    return mounts

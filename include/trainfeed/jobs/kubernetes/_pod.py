"""The pod of a rank, typed: what every kind of job has in common.

All texts of a specification become values of a tree that is sent as JSON; none is put into another
text, and none is expanded by the cluster: a ``$`` is doubled, which the kubelet undoes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from trainfeed.jobs._job_placement import JobPlacement
from trainfeed.jobs.kubernetes._cluster_settings import ClusterSettings, MountedRoot

__all__ = ["CODE_PATH", "FieldOfPod", "Mount", "RankPod"]

CODE_PATH: Final = "/trainfeed/code"
Json = dict[str, Any]


@dataclass(frozen=True)
class FieldOfPod:
    """The value of a variable that the cluster knows: a label or annotation of the pod."""

    path: str


@dataclass(frozen=True)
class Mount:
    """A volume of a pod and its place.

    Attributes:
        name: Of the volume, in the pod.
        path: Where it is mounted.
        source: What it is, as Kubernetes has it.
        read_only: Whether the rank may only read it.
    """

    name: str
    path: str
    source: Mapping[str, Any]
    read_only: bool = False

    @classmethod
    def of(cls, name: str, volume: MountedRoot, *, read_only: bool = False) -> Mount | None:
        """Return the mount of a volume of the installation; None when the pods have it already."""
        if volume.claim is not None:
            source: Json = {"persistentVolumeClaim": {"claimName": volume.claim}}
        elif volume.host_path is not None:
            source = {"hostPath": {"path": volume.host_path, "type": "Directory"}}
        else:
            return None
        return cls(name, volume.path, source, read_only)


@dataclass(frozen=True)
class RankPod:
    """The pod of one rank.

    Attributes:
        container: Name of its container; some kinds want a certain one.
        image: Of the container.
        command: Program and arguments.
        environment: Variables, name to text or to what the cluster knows.
        mounts: Its volumes.
        placement: Where and with what it runs.
        settings: Of the cluster.
        marks: Labels and annotations.
        subdomain: Name of the service by which ranks find each other.
    """

    container: str
    image: str
    command: Sequence[str]
    environment: Mapping[str, str | FieldOfPod]
    mounts: Sequence[Mount]
    placement: JobPlacement
    settings: ClusterSettings
    marks: Mapping[str, Any] = field(default_factory=dict)
    subdomain: str | None = None

    def template(self) -> Json:
        """Return the pod template."""
        place = self.placement
        spec: Json = {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "containers": [self._container()],
            **_given("volumes", self.volumes()),
            **_given("nodeSelector", dict(place.node_selector)),
            **_given("tolerations", list(place.tolerations)),
            **_given("priorityClassName", place.priority),
            **_given("serviceAccountName", self.settings.service_account),
            **_given("subdomain", self.subdomain),
        }
        if place.image_pull_secret:
            spec["imagePullSecrets"] = [{"name": place.image_pull_secret}]
        return {"metadata": dict(self.marks), "spec": spec}

    def variables(self) -> list[Json]:
        """Return the variables as Kubernetes has them, sorted by name."""
        return [_variable(name, value) for name, value in sorted(self.environment.items())]

    def arguments(self) -> list[str]:
        """Return program and arguments, none of which the cluster expands."""
        return [_literal(part) for part in self.command]

    def volumes(self) -> list[Json]:
        """Return the volumes as Kubernetes has them."""
        return [{"name": mount.name, **mount.source} for mount in self.mounts]

    def volume_mounts(self) -> list[Json]:
        """Return where the volumes are mounted."""
        return [
            {
                "name": mount.name,
                "mountPath": mount.path,
                **({"readOnly": True} if mount.read_only else {}),
            }
            for mount in self.mounts
        ]

    def resources(self) -> Json:
        """Return what a rank gets: memory and accelerators are limits, processors are asked for."""
        place = self.placement
        hard: dict[str, str] = {}
        if place.memory_bytes is not None:
            hard["memory"] = str(place.memory_bytes)
        if place.gpu_type is not None:
            hard[place.gpu_type] = str(place.gpu_number)
        cpu = {} if place.cpu is None else {"cpu": _processors(place.cpu)}
        return {**_given("requests", {**cpu, **hard}), **_given("limits", hard)}

    def _container(self) -> Json:
        return {
            "name": self.container,
            "image": self.image,
            "command": self.arguments(),
            "env": self.variables(),
            "securityContext": {"allowPrivilegeEscalation": False},
            "terminationMessagePolicy": "FallbackToLogsOnError",
            **_given("resources", self.resources()),
            **_given("volumeMounts", self.volume_mounts()),
        }


def _given(name: str, value: Any) -> Json:
    return {name: value} if value else {}


def _variable(name: str, value: str | FieldOfPod) -> Json:
    if isinstance(value, FieldOfPod):
        return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": value.path}}}
    return {"name": name, "value": _literal(value)}


def _literal(text: str) -> str:
    return text.replace("$", "$$")


def _processors(cpu: float) -> str:
    return f"{round(cpu * 1000)}m"

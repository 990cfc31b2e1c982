"""The pod of a rank, the part that all kinds of jobs share.

Texts of a specification become values in a tree that is sent as JSON; none is inserted into another
text. Each ``$`` is doubled, so the cluster expands no variable in them.
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
    """A variable's value that the cluster fills in: the pod's label or annotation at ``path``."""

    path: str


@dataclass(frozen=True)
class Mount:
    """A volume of a pod, and the path where it is mounted.

    Attributes:
        name: Name of the volume in the pod.
        path: Path in the container.
        source: Source of the volume, in the form of Kubernetes.
        read_only: Whether the rank may only read it.
    """

    name: str
    path: str
    source: Mapping[str, Any]
    read_only: bool = False

    @classmethod
    def of(cls, name: str, volume: MountedRoot, *, read_only: bool = False) -> Mount | None:
        """Return the mount of a volume of the settings; None when its path is in the image."""
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
        container: Name of the container; some kinds require a certain name.
        image: Image of the container.
        command: Program and arguments.
        environment: Variables, name to text or to a field that the cluster fills in.
        mounts: The pod's volumes and their paths.
        placement: Resources and place of the rank.
        settings: Settings of the cluster.
        marks: Labels and annotations of the pod.
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
        """Return the variables in the form of Kubernetes, sorted by name."""
        return [_variable(name, value) for name, value in sorted(self.environment.items())]

    def arguments(self) -> list[str]:
        """Return program and arguments, with each ``$`` doubled."""
        return [_literal(part) for part in self.command]

    def volumes(self) -> list[Json]:
        """Return the volumes in the form of Kubernetes."""
        return [{"name": mount.name, **mount.source} for mount in self.mounts]

    def volume_mounts(self) -> list[Json]:
        """Return the mounts of the volumes in the form of Kubernetes."""
        return [
            {
                "name": mount.name,
                "mountPath": mount.path,
                **({"readOnly": True} if mount.read_only else {}),
            }
            for mount in self.mounts
        ]

    def resources(self) -> Json:
        """Return requests and limits: memory and accelerators are both, processors a request."""
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
    # In commands and values the kubelet expands "$(NAME)", and turns "$$" into "$".
    return text.replace("$", "$$")


def _processors(cpu: float) -> str:
    return f"{round(cpu * 1000)}m"

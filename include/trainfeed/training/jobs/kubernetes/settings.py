"""The settings of a cluster: how to reach it, and the images and volumes that jobs may use."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from trainfeed.errors import ConfigError, JobRejectedError

_PATH: Final = r"^(/[A-Za-z0-9._ -]+)+$"
_LABEL: Final = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
Path = Annotated[str, Field(pattern=_PATH)]
# A namespace is one label of DNS, names of other objects are several.
Label = Annotated[str, Field(pattern=f"^{_LABEL}$")]
Name = Annotated[str, Field(pattern=rf"^{_LABEL}(\.{_LABEL})*$", max_length=253)]
# The API has the seconds in 32 bits.
_MOST_HOURS: Final = (2**31 - 1) // 3600
_EXAMPLE: Final = (
    "{namespace: training, root: {path: /pfs/dataset, claim: cephfs},"
    " images: [registry/trainers/*]}"
)


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class MountedRoot(_Settings):
    """The publication root, or the public folder of the data centre, as ranks see it.

    Attributes:
        path: Path in a pod.
        claim: Name of the volume claim with the folder.
        host_path: Path of the folder on the machines. Without ``claim`` and ``host_path`` nothing
            is mounted: the path must exist in the image.
    """

    path: Path
    claim: Name | None = None
    host_path: Path | None = None

    @model_validator(mode="after")
    def _require_one_source(self) -> Self:
        if self.claim is not None and self.host_path is not None:
            raise ValueError("expected claim or host_path, got both")
        return self


class ClusterVolume(MountedRoot):
    """A volume that data sets may ask for by its name.

    Attributes:
        read_only: Whether ranks may only read it.
    """

    read_only: bool = False


class ClusterSettings(_Settings):
    """The settings of one cluster.

    Attributes:
        kubeconfig: File with address and credentials; without it, trainfeed itself must run in a
            pod of the cluster, and the pod's credentials are used.
        context: Context in that file; its current one by default.
        namespace: Namespace of the jobs.
        root: The publication root, as ranks see it.
        public: The public folder of the data centre, which every rank may read and none may write;
            without it, ranks have no public sets.
        image: Image of jobs that name none; trainfeed must be installed in it.
        images: Patterns of the images that data sets may name, without tag and digest, as of
            ``fnmatch``; ``*`` matches ``/``, too.
        volumes: The volumes that data sets may ask for, by name.
        service_account: Service account of the pods; its token is not mounted.
        runtime: Name of the ClusterTrainingRuntime of TrainJobs.
        keep_hours: Hours after which the cluster removes a job that has ended.
    """

    kubeconfig: str | None = None
    context: str | None = None
    namespace: Label = "default"
    root: MountedRoot
    public: MountedRoot | None = None
    image: str | None = None
    images: list[str] = Field(default_factory=list)
    volumes: dict[str, ClusterVolume] = Field(default_factory=dict)
    service_account: Name | None = None
    runtime: Name = "torch-distributed"
    keep_hours: Annotated[int, Field(ge=1, le=_MOST_HOURS)] = 7 * 24

    @classmethod
    def of(cls, clusters: Mapping[str, Mapping[str, Any]], connection: str) -> ClusterSettings:
        """Return the settings of a connection.

        Raises:
            ConfigError: The connection has no settings, or wrong ones.
        """
        if connection not in clusters:
            raise ConfigError(
                f"expected settings of the cluster {connection!r}, got none; known here:"
                f" {', '.join(sorted(clusters)) or 'no cluster'}; add them to the file of"
                f" TRAINFEED_CLUSTERS, in Airflow as extras of a connection: {_EXAMPLE}"
            )
        try:
            return cls.model_validate(clusters[connection])
        except ValidationError as error:
            raise ConfigError(
                f"settings of the cluster {connection!r}: {_problems(error)}; nothing was started;"
                f" correct them, such as {_EXAMPLE}"
            ) from error

    def image_of(self, asked: str | None) -> str:
        """Return the image of a job that names ``asked``.

        Raises:
            JobRejectedError: The installation does not allow the image, or none is named and the
                cluster has no default image.
        """
        if asked is None:
            if self.image is None:
                raise JobRejectedError(
                    "expected train.image, got none, and the cluster's settings have no image;"
                    " nothing was started; give one of them"
                )
            return self.image
        name = _without_tag(asked)
        if asked != self.image and not any(fnmatchcase(name, pattern) for pattern in self.images):
            raise JobRejectedError(
                "expected an image that the installation allows"
                f" ({', '.join(self.images) or 'it allows none'}), got {asked!r}; nothing was"
                " started; change train.image, or add it to the cluster's settings"
            )
        return asked

    def volume(self, name: str) -> ClusterVolume:
        """Return the volume that a job asks for.

        Raises:
            JobRejectedError: The installation does not allow the volume.
        """
        if name not in self.volumes:
            raise JobRejectedError(
                "expected a volume that the installation allows"
                f" ({', '.join(sorted(self.volumes)) or 'it allows none'}), got {name!r}; nothing"
                " was started; change train.volumes, or add it to the cluster's settings"
            )
        return self.volumes[name]


def _without_tag(image: str) -> str:
    # Only the part after the last slash can have a tag: "host:5000/trainer" has none.
    name = image.partition("@")[0]
    head, slash, tail = name.rpartition("/")
    return head + slash + tail.partition(":")[0]


def _problems(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(map(str, detail['loc']))}: {detail['msg'][:1].lower()}{detail['msg'][1:]}"
        for detail in error.errors(include_url=False, include_input=False)[:5]
    )

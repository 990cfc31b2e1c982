"""The job file: everything that a rank needs to run a training job."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from trainfeed.core import canonical_json
from trainfeed.core.config import job_places
from trainfeed.errors import FormatError, JobRejectedError
from trainfeed.files.records import ONCE_UNSEALED, RecordFile

# --- The resources and the place of a job's ranks on a cluster; no part of the job's identity


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


# --- The job file: everything that a rank needs to run a training job

JOB_FILE: Final = "job.json"
# Fields that came after the first job files.
_LATER: Final = (
    "skipped", "image", "command", "environment", "placement", "attempt", "start_model",
    "tensorboard", "tag", "accepted",
)  # fmt: skip


class JobVersion(JobModel):
    """One version that a job reads; its digest is compared before the first batch.

    Attributes:
        interval: Name of the interval.
        generation: Name of the version's folder, such as ``g0001``.
        path: The version's folder, relative to the publication root.
        content_digest: Content digest from the version's manifest.
        manifest_sha256: SHA-256 of the version's manifest in hex.
    """

    interval: str
    generation: str
    path: str
    content_digest: str
    manifest_sha256: str


class JobSpec(JobModel):
    """A training job, as its job file holds it.

    Attributes:
        name: Name, a function of data set, interval and identity; equal jobs share it.
        dataset: Name of the data set.
        interval: Name of the last interval of the window.
        folder: The folder with the module of ``entry``, relative to the folder of the data set's
            code.
        entry: ``module:name`` of the function that trains; None when ``command`` is given.
        code: Digest of the folder's Python files; a rank runs no other code.
        seed: Seed of the data set.
        ranks: Number of processes.
        versions: The versions that the job reads, in order of their intervals.
        skipped: Names of the intervals of the window that were left out by decision.
        image: Container image of the ranks, on a cluster.
        command: Program and arguments of a rank, in the place of trainfeed's runtime.
        environment: Variables of the ranks, beside those that the launcher sets.
        placement: Resources and place of the ranks on a cluster; None for a local job.
        attempt: Number of the attempt to run the job, from 1.
        start_model: SHA-256 of the manifest of the downloaded model that the training starts from.
        tensorboard: Whether rank 0 writes event files beside the metrics log.
        tag: The tag by which the versions were chosen, with the number of its change, such as
            ``prod#3``; None for a window of intervals.
        accepted: The holes between the versions that a person accepted, as ranges.
    """

    name: str
    dataset: str
    interval: str
    folder: str
    entry: str | None
    code: str
    seed: int
    ranks: Annotated[int, Field(ge=1)]
    versions: list[JobVersion]
    skipped: list[str] = Field(default_factory=list)
    image: str | None = None
    command: list[str] | None = None
    environment: dict[str, str] = Field(default_factory=dict)
    placement: JobPlacement | None = None
    attempt: Annotated[int, Field(ge=1)] = 1
    start_model: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    tensorboard: bool = False
    tag: str | None = None
    accepted: list[str] = Field(default_factory=list)

    @classmethod
    def named(cls, **fields: Any) -> JobSpec:
        """Return a job; its name is computed from the other fields."""
        job = cls(name="", **fields)
        name = f"{job.dataset}-{job.interval}-{job.identity[:12]}".lower()
        return job.model_copy(update={"name": name})

    @property
    def is_proven(self) -> bool:
        """Whether the image is fixed: named by its digest, or none is named."""
        return self.image is None or "@sha256:" in self.image

    @property
    def identity(self) -> str:
        """SHA-256 in hex of all fields that the result of the job depends on."""
        # Only the digest counts: the same image may have several names.
        image = (self.image or "").rpartition("@")[2]
        later = {
            "image": image,
            "command": self.command,
            "environment": self.environment,
            "start_model": self.start_model,
        }
        return canonical_json.sha256_of(
            {
                "dataset": self.dataset,
                "interval": self.interval,
                "contents": [version.content_digest for version in self.versions],
                "configuration": [self.entry, self.code, self.seed, self.ranks],
                **{name: value for name, value in later.items() if value},
            }
        )

    @classmethod
    def read(cls, path: Path) -> JobSpec:
        """Read a job file.

        Raises:
            JobRejectedError: There is no such file, it is not a job specification, or it is that
                of another folder.
        """
        try:
            found = _FILE.read(path, home=path.parent.name)
        except FormatError as error:
            raise JobRejectedError(f"{path} is not a job specification: {error}") from error
        if found is None:
            raise JobRejectedError(f"{path} is not a job specification: it is gone; {_FILE.remedy}")
        return found.spec

    def write(self, path: Path) -> None:
        """Write the job file durably, in the place of an earlier one.

        Raises:
            StorageError: The file system refused or failed.
        """
        _FILE.replace(path, _JobFile(self, path.parent.name))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of the job."""
        # A later field that is not set is left out, as in files of earlier versions.
        unset = {name for name in _LATER if getattr(self, name) == _default(name)}
        return self.model_dump(exclude=unset)


@dataclass(frozen=True)
class _JobFile:
    """A job file: the job, and the name of the job's folder; that is None without a seal."""

    spec: JobSpec
    home: str | None = None


def _from_json(value: dict[str, Any]) -> _JobFile:
    home = value.pop("home", None)
    return _JobFile(JobSpec.model_validate(value), home)


_FILE: Final = RecordFile(
    _JobFile,
    "the specification of a job",
    "nothing was started; bring the file back from a backup, or train again",
    mode=0o644,
    max_bytes=canonical_json.MAX_BYTES,
    place=ONCE_UNSEALED["job"],
    to_json=lambda file: {**file.spec.to_json(), "home": file.home},
    from_json=_from_json,
)


def _default(name: str) -> Any:
    return JobSpec.model_fields[name].get_default(call_default_factory=True)


def describe(spec: JobSpec) -> dict[str, Any]:
    """Return the job's name, intervals and versions, for reports."""
    return {
        "job": spec.name,
        "intervals": [version.interval for version in spec.versions],
        "versions": [f"{version.interval}/{version.generation}" for version in spec.versions],
        **({"skipped": spec.skipped} if spec.skipped else {}),
        **({"accepted": spec.accepted} if spec.accepted else {}),
        **({"start_model": spec.start_model} if spec.start_model else {}),
        **({"tag": spec.tag} if spec.tag else {}),
    }


# --- The two folders below which the paths of a job file lie, for the present process


@dataclass(frozen=True)
class JobRoots:
    """The folders that the relative paths of job files start from.

    Attributes:
        root: The publication root, for versions; None when it is not known.
        code: The folder of the data set's code; None when it is not known.
    """

    root: Path | None
    code: Path | None

    @classmethod
    def from_environ(cls) -> JobRoots:
        """Return the roots that ``TRAINFEED_JOB_ROOT`` and ``TRAINFEED_JOB_CODE`` name."""
        root, code = job_places()
        return cls(root, code)

    def version(self, version: JobVersion) -> Path:
        """Return the folder of a version.

        Raises:
            JobRejectedError: The path is absolute, or the root is not known.
        """
        return _below(self.root, version.path, "TRAINFEED_JOB_ROOT")

    def folder(self, job: JobSpec) -> Path:
        """Return the folder of the job's code.

        Raises:
            JobRejectedError: The path is absolute, or the folder of the code is not known.
        """
        return _below(self.code, job.folder, "TRAINFEED_JOB_CODE")


def _below(root: Path | None, path: str, variable: str) -> Path:
    if Path(path).is_absolute():
        raise JobRejectedError(
            f"expected a path relative to {variable} in the job file, got {path!r}; nothing was"
            " run; train again"
        )
    if root is None:
        raise JobRejectedError(
            f"expected {variable} to name the folder that {path!r} lies in, it is not set; nothing"
            " was run; start the rank by a launcher of trainfeed, or set the variable"
        )
    return root / path

"""What a training job is, on disk and for the function that trains."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trainfeed.dataset import Version, canonical
from trainfeed.errors import ChecksumError, FormatError, JobRejectedError, NotFoundError
from trainfeed.paths import read_plain
from trainfeed.readers import DatasetReader

__all__ = ["JOB_FILE", "JobSpec", "JobVersion", "TrainingJob"]

JOB_FILE: Final = "job.json"


class _JobModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class JobVersion(_JobModel):
    """One version that a job reads; its digest is compared before the first batch."""

    interval: str
    generation: str
    path: str
    content_digest: str
    manifest_sha256: str


class JobSpec(_JobModel):
    """A training job, complete: this file is enough to run it.

    Attributes:
        name: Function of data set, interval, contents and configuration; equal jobs share it.
        folder: The data set's folder, which holds the module of ``entry``.
        code: Digest of the folder's Python files; a rank runs no other code.
        versions: In order of their intervals.
        skipped: Names of the intervals of the window that were decided to be left out.
    """

    name: str
    dataset: str
    interval: str
    folder: str
    entry: str
    code: str
    seed: int
    ranks: Annotated[int, Field(ge=1)]
    versions: list[JobVersion]
    skipped: list[str] = Field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> JobSpec:
        """Read a job file.

        Raises:
            JobRejectedError: It is not a job specification.
        """
        try:
            data = read_plain(path, follow=False, max_bytes=canonical.MAX_BYTES)
            return cls.model_validate(canonical.loads(data, path=str(path)))
        except (FormatError, NotFoundError, ValidationError) as error:
            raise JobRejectedError(f"{path} is not a job specification: {error}") from error

    def to_bytes(self) -> bytes:
        """Return the canonical JSON."""
        # Left out where there is none, as from files of before.
        return canonical.dumps(self.model_dump(exclude=None if self.skipped else {"skipped"}))


@dataclass(frozen=True)
class TrainingJob:
    """What the training function of a data set gets.

    Attributes:
        spec: The job.
        rank: Number of this process, from 0.
        world_size: Number of processes.
        output: Folder for models and whatever else should stay; exists.
    """

    spec: JobSpec
    rank: int
    world_size: int
    output: Path

    @property
    def intervals(self) -> list[str]:
        """Names of the intervals that are read, in order."""
        return [version.interval for version in self.spec.versions]

    @property
    def skipped(self) -> list[str]:
        """Names of the intervals of the window that were decided to be left out."""
        return list(self.spec.skipped)

    @property
    def seed(self) -> int:
        """The data set's seed; the only randomness a repeatable training may use."""
        return self.spec.seed

    def open(self, split: str) -> DatasetReader:
        """Open a split of all versions as one data set.

        Raises:
            ChecksumError: A version is not the one that the job was launched for.
            ConfigError: There is no such split.
        """
        return DatasetReader([_open(version) for version in self.spec.versions], split)


def _open(planned: JobVersion) -> Version:
    version = Version.open(Path(planned.path))
    if version.manifest_sha256 != planned.manifest_sha256:
        raise ChecksumError(
            f"expected the version with manifest {planned.manifest_sha256}, got"
            f" {version.manifest_sha256}",
            path=planned.path,
        )
    return version


def describe(spec: JobSpec) -> dict[str, Any]:
    """Return the job's name and what it reads, as reports have it."""
    return {
        "job": spec.name,
        "intervals": [version.interval for version in spec.versions],
        "versions": [f"{version.interval}/{version.generation}" for version in spec.versions],
        **({"skipped": spec.skipped} if spec.skipped else {}),
    }

"""What the function that trains gets: its rank, its versions, its place for models."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from trainfeed.dataset import Version
from trainfeed.errors import ChecksumError
from trainfeed.jobs import JobRoots, JobSpec, JobVersion
from trainfeed.readers import DatasetReader

__all__ = ["TrainingJob"]


@dataclass(frozen=True)
class TrainingJob:
    """What the training function of a data set gets.

    Attributes:
        spec: The job.
        rank: Number of this process, from 0.
        world_size: Number of processes.
        output: Folder for models and whatever else should stay; exists.
        roots: Where the versions are.
    """

    spec: JobSpec
    rank: int
    world_size: int
    output: Path
    roots: JobRoots = field(default_factory=JobRoots.from_environ)

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
        return DatasetReader([self._open(version) for version in self.spec.versions], split)

    def _open(self, planned: JobVersion) -> Version:
        path = self.roots.version(planned)
        version = Version.open(path)
        if version.manifest_sha256 != planned.manifest_sha256:
            raise ChecksumError(
                f"expected the version with manifest {planned.manifest_sha256}, got"
                f" {version.manifest_sha256}",
                path=str(path),
            )
        return version

"""The versions and loaders of a job in one rank, at the place of its checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from trainfeed.dataset import Version
from trainfeed.errors import ChecksumError, ConfigError
from trainfeed.jobs import JobRoots, JobSpec, JobVersion
from trainfeed.loader import DataLoader
from trainfeed.readers import DatasetReader

__all__ = ["JobLoaders"]

_OURS: Final = frozenset({"seed", "rank", "world_size"})


class JobLoaders:
    """The newest loader of each split, and the versions that they read.

    Args:
        spec: The job.
        roots: Folders of versions, as this process sees them.
        rank: Number of this process, from 0.
        world_size: Number of processes.
    """

    def __init__(self, spec: JobSpec, roots: JobRoots, rank: int, world_size: int) -> None:
        self._spec = spec
        self._roots = roots
        self._rank = rank
        self._world_size = world_size
        self._loaders: dict[str, DataLoader] = {}
        # Number of samples of an epoch, by split.
        self._totals: dict[str, int] = {}
        # States from the checkpoint, by split, for loaders that are not created yet.
        self._waiting: dict[str, Mapping[str, Any]] = {}
        # Opened versions by path: each manifest is read once.
        self._versions: dict[Path, Version] = {}

    def open(self, split: str) -> DatasetReader:
        """Open a split of all versions; see ``TrainingJob.open``."""
        return DatasetReader([self._open(version) for version in self._spec.versions], split)

    def create(self, split: str, data: DatasetReader, options: Mapping[str, Any]) -> DataLoader:
        """Create the loader of a split; see ``TrainingJob.loader``.

        Args:
            split: Name of the split.
            data: Samples of the split.
            options: Options of ``DataLoader``.

        Raises:
            ConfigError: An option is out of range, or is one that the job sets.
        """
        if given := sorted(_OURS & options.keys()):
            raise ConfigError(
                f"expected no {', '.join(given)} for a loader of a job, whose they are; leave them"
                " out, or make a DataLoader of job.open(…)"
            )
        loader = DataLoader(
            data,
            seed=self._spec.seed,
            rank=self._rank,
            world_size=self._world_size,
            **options,
        )
        if (state := self._waiting.pop(split, None)) is not None:
            loader.load_state_dict(state)
        self._loaders[split] = loader
        self._totals[split] = data.num_samples
        return loader

    def states(self) -> dict[str, Mapping[str, Any]]:
        """Return the state of the newest loader of each split."""
        return {split: each.state_dict() for split, each in self._loaders.items()}

    def restore(self, states: Mapping[str, Mapping[str, Any]]) -> None:
        """Set loaders to their states: those that are there now, the others when they are created.

        Args:
            states: States of a checkpoint, by split.
        """
        self._waiting.update(states)
        for split in self._loaders.keys() & states.keys():
            self._loaders[split].load_state_dict(self._waiting.pop(split))

    def num_samples(self) -> int:
        """Return the number of samples that all ranks have read, over all epochs.

        The loader of the split ``train`` counts, or else the one that was created first.
        """
        if not self._loaders:
            return 0
        # ``position`` of a loader's state counts the samples of all ranks within the epoch.
        split = "train" if "train" in self._loaders else next(iter(self._loaders))
        state = self._loaders[split].state_dict()
        place: int = state["epoch"] * self._totals[split] + state["position"]
        return place

    def close(self) -> None:
        """Close all loaders."""
        for loader in self._loaders.values():
            loader.close()

    def _open(self, planned: JobVersion) -> Version:
        path = self._roots.version(planned)
        if (version := self._versions.get(path)) is None:
            version = self._versions[path] = Version.open(path)
        if version.manifest_sha256 != planned.manifest_sha256:
            raise ChecksumError(
                f"expected the version with manifest {planned.manifest_sha256}, got"
                f" {version.manifest_sha256}",
                path=str(path),
            )
        return version

"""The task list: the chunks of published versions, in groups, with a digest that names the list.

Master and trainers make the list from their own view of the publication root. Equal digests mean
equal manifests, and so equal chunks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from trainfeed import canonical_json
from trainfeed.dataset import DatasetFolder, Version, published_root
from trainfeed.dataset.layout import parse_generation
from trainfeed.dataset.tag import TaggedData
from trainfeed.dataset.version import ShardChunk
from trainfeed.dispatch._wire import Served
from trainfeed.errors import ConfigError, ConflictError
from trainfeed.paths import ShardSize

__all__ = ["TaskList", "TaskSpan"]


@dataclass(frozen=True)
class TaskSpan:
    """One chunk of a task.

    Attributes:
        version: The version.
        path: File of the shard.
        size: Size of the file, as the manifest states it.
        chunk: Place and size of the chunk.
    """

    version: Version
    path: Path
    size: ShardSize
    chunk: ShardChunk


@dataclass(frozen=True)
class TaskList:
    """The tasks of a split of versions.

    Attributes:
        name: Name of the data set.
        split: Name of the split.
        versions: The versions, in order.
        chunks_per_task: Chunks in a task; the last task may have fewer.
        seed: Seed of the order of tasks in a pass.
    """

    name: str
    split: str
    versions: tuple[Version, ...]
    chunks_per_task: int = 1
    seed: int = 0

    @classmethod
    def of_range(
        cls,
        name: str,
        asked: str | None,
        split: str,
        *,
        chunks_per_task: int = 1,
        seed: int = 0,
        root: str | Path | None = None,
    ) -> TaskList:
        """Return the tasks of the published versions of a range, as ``open_dataset`` finds them.

        ``name`` may be ``NAME@TAG``, with None for all of the tag; the list keeps the versions that
        the tag names now.

        Raises:
            ConfigError: There is no such split, no chunk at all, or a number is below 1.
            NotFoundError: Nothing of the range is published.
            WindowIncompleteError: Intervals of the range are missing.
        """
        if chunks_per_task < 1:
            raise ConfigError(f"expected at least 1 chunk per task, got {chunks_per_task}")
        data = TaggedData(published_root(root), name)
        found = data.cover(asked)
        found.require("fail")
        tasks = cls(data.folder.name, split, found.versions, chunks_per_task, seed)
        if not tasks.num_tasks:
            raise ConfigError(
                f"expected chunks in split {split!r} of {name}/{found.asked}, got none; nothing is"
                " served"
            )
        return tasks

    @classmethod
    def of_served(cls, served: Served, root: str | Path | None = None) -> TaskList:
        """Return the list that a master serves, from this machine's view of the root.

        Raises:
            ConflictError: The root has other versions than the master.
            NotFoundError: A version is not here.
        """
        folder = DatasetFolder(published_root(root), served.name)
        pairs = [each.rpartition("/") for each in served.versions]
        versions = tuple(
            Version.resolve(folder, interval, parse_generation(generation))
            for interval, _, generation in pairs
        )
        tasks = cls(served.name, served.split, versions, served.chunks_per_task, served.seed)
        if tasks.digest != served.digest or tasks.num_tasks != served.tasks:
            raise ConflictError(
                f"expected the versions of the master, with the digest {served.digest[:16]}…, got"
                f" {tasks.digest[:16]}… in {folder.path}; nothing was read; read the publication"
                " root that the master serves"
            )
        return tasks

    @cached_property
    def digest(self) -> str:
        """SHA-256 of data set, split, manifests, size of tasks and seed."""
        identity = {
            "name": self.name,
            "split": self.split,
            "versions": [version.name for version in self.versions],
            "manifests": [version.manifest_sha256 for version in self.versions],
            "chunks_per_task": self.chunks_per_task,
            "seed": self.seed,
        }
        return hashlib.sha256(canonical_json.dumps(identity)).hexdigest()

    @cached_property
    def num_tasks(self) -> int:
        """Number of tasks."""
        return -(-len(self._spans) // self.chunks_per_task)

    @cached_property
    def _spans(self) -> list[TaskSpan]:
        spans = []
        for version in self.versions:
            # Who reads a task compares the sizes: a trainer that lacks a shard stops no master.
            paths = version.shard_paths(self.split, sizes=False)
            sizes = version.shard_sizes(self.split)
            spans += [
                TaskSpan(version, paths[chunk.shard], sizes[chunk.shard], chunk)
                for chunk in version.chunks(self.split)
            ]
        return spans

    def chunks(self, task: int) -> Sequence[TaskSpan]:
        """Return the chunks of a task, in order.

        Raises:
            ConfigError: There is no such task.
        """
        if not 0 <= task < self.num_tasks:
            raise ConfigError(f"expected a task below {self.num_tasks}, got {task}")
        first = task * self.chunks_per_task
        return self._spans[first : first + self.chunks_per_task]

    def order(self, pass_number: int) -> list[int]:
        """Return the order in which the tasks of a pass are lent: a function of seed and pass."""
        start = f"{self.seed}:{pass_number}:"
        keys = {
            task: hashlib.sha256(f"{start}{task}".encode()).digest()
            for task in range(self.num_tasks)
        }
        return sorted(keys, key=keys.__getitem__)

    def served(self, pass_number: int, passes: int | None) -> Served:
        """Return the description for trainers."""
        return Served(
            name=self.name,
            split=self.split,
            versions=tuple(version.name for version in self.versions),
            manifests=tuple(version.manifest_sha256 for version in self.versions),
            chunks_per_task=self.chunks_per_task,
            seed=self.seed,
            digest=self.digest,
            tasks=self.num_tasks,
            pass_number=pass_number,
            passes=passes,
        )

"""The argument of a training function: versions, loaders, output folder, checkpoints, metrics."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from trainfeed.core import canonical_json, faults
from trainfeed.core.config import job_model, rendezvous
from trainfeed.core.whole_numbers import whole
from trainfeed.errors import (
    AccessDeniedError,
    ChecksumError,
    ConfigError,
    JobRejectedError,
    NotFoundError,
)
from trainfeed.files import os_errors, unfinished_name
from trainfeed.loader import DataLoader
from trainfeed.readers import DatasetReader
from trainfeed.training.checkpoints import CHECKPOINTS, Checkpoint, CheckpointNote, Checkpoints
from trainfeed.training.jobs import JobRoots, JobSpec, JobVersion
from trainfeed.training.metrics import METRICS_LOG, MetricsLog, Recomputed
from trainfeed.training.tracking import TENSORBOARD, EventFiles
from trainfeed.training.transfers import open_start_model
from trainfeed.versions import DatasetFolder, Version
from trainfeed.versions.layout import parse_generation
from trainfeed.versions.lease import hold_versions

# --- The lease of a training: retention removes no version that a running job reads

logger = logging.getLogger(__name__)


def job_lease(spec: JobSpec, rank: int, roots: JobRoots) -> AbstractContextManager[object]:
    """Return the context in which rank 0 of a job holds a lease of the job's versions.

    Raises:
        JobRejectedError: Retention has removed a version of the job.
        StorageError: The publication root refused or failed.
    """
    if rank or roots.root is None:
        return nullcontext()
    folder = DatasetFolder(roots.root, spec.dataset)
    versions = [(each.interval, parse_generation(each.generation)) for each in spec.versions]
    try:
        return hold_versions(folder, versions, f"training {spec.name}")
    except NotFoundError as error:
        raise JobRejectedError(f"{error}; then train again (in Airflow: clear the task)") from error
    except AccessDeniedError as error:
        # The job file keeps the versions as long as there is no result.
        logger.warning("job %s trains without a lease: %s", spec.name, error)
        return nullcontext()


# --- The versions and loaders of a job in one rank, at the place of its checkpoint

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


# --- The progress of a training, in a file that other programs can read

PROGRESS_FILE: Final = "progress.json"
_EVERY_S: Final = 1.0


class Progress:
    """The progress file of a job: ``{"done": …, "total": …}``, replaced at most once a second.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._due_s = 0.0

    def set(self, done: int, total: int) -> None:
        """Write the progress, unless the file is less than a second old and ``done < total``.

        Raises:
            ConfigError: A value is no whole number, or ``done`` is more than ``total``.
            StorageError: The file cannot be written.
        """
        total = whole("the total of a progress", total, 0)
        done = whole("what is done of a progress", done, 0, total)
        now_s = time.monotonic()
        if now_s < self._due_s and done < total:
            return
        self._due_s = now_s + _EVERY_S
        # Not synced: after a crash of the machine an old progress is of no use.
        new = self._path.with_name(unfinished_name(self._path.name))
        with os_errors(self._path):
            new.write_bytes(canonical_json.dumps({"done": done, "total": total}))
            new.replace(self._path)


# --- The parts of a ``TrainingJob`` that change while it runs; the job itself is frozen


@dataclass(frozen=True)
class RankState:
    """Loaders of one rank, and the files in the job's folder that rank 0 writes.

    Attributes:
        loaders: The loaders of this rank.
        log: The metrics log.
        progress: The progress file.
        checkpoints: The checkpoints of the job.
        is_first: Whether this is rank 0; other ranks write no file.
    """

    loaders: JobLoaders
    log: MetricsLog
    progress: Progress
    checkpoints: Checkpoints
    is_first: bool

    @classmethod
    def of(cls, spec: JobSpec, roots: JobRoots, rank: int, world_size: int, home: Path) -> Self:
        """Return the state of a rank that has read and written nothing yet.

        Args:
            spec: The job.
            roots: Folders of versions, as this process sees them.
            rank: Number of this process, from 0.
            world_size: Number of processes.
            home: The job's folder.
        """
        events = EventFiles(home / TENSORBOARD, spec.name) if spec.tensorboard else None
        return cls(
            JobLoaders(spec, roots, rank, world_size),
            MetricsLog(home / METRICS_LOG, events),
            Progress(home / PROGRESS_FILE),
            Checkpoints(home / CHECKPOINTS, spec),
            is_first=rank == 0,
        )

    def begin(self, log_bytes: int, samples: int) -> None:
        """Let the metrics log go on behind a checkpoint; nothing happens on other ranks than 0.

        Args:
            log_bytes: Size of the log at the checkpoint, in bytes.
            samples: Number of samples at the checkpoint, as ``JobLoaders.num_samples`` counts.
        """
        if self.is_first:
            self.log.begin(log_bytes, samples)

    def open_log(self) -> MetricsLog:
        """Return the metrics log; without a ``begin`` before, it starts with no line."""
        if not self.log.is_open:
            self.begin(0, 0)
        return self.log

    def close(self) -> None:
        """Close loaders and metrics log."""
        self.loaders.close()
        self.log.close()


# --- The argument of a training function: versions, loaders, output folder, checkpoints, metrics

_LARGEST_STEP: Final = 10**12 - 1


@dataclass(frozen=True)
class TrainingJob:
    """The argument of a training function, in each rank.

    Attributes:
        spec: The job.
        rank: Number of this process, from 0.
        world_size: Number of processes.
        output: Folder for models and other files to keep; exists.
        roots: Folders of versions and code, as this process sees them.
    """

    spec: JobSpec
    rank: int
    world_size: int
    output: Path
    roots: JobRoots = field(default_factory=JobRoots.from_environ)
    _state: RankState = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        home = self.output.parent
        state = RankState.of(self.spec, self.roots, self.rank, self.world_size, home)
        object.__setattr__(self, "_state", state)

    @property
    def intervals(self) -> list[str]:
        """Names of the intervals that are read, in order."""
        return [version.interval for version in self.spec.versions]

    @property
    def skipped(self) -> list[str]:
        """Names of the intervals of the window that were left out by decision."""
        return list(self.spec.skipped)

    @property
    def accepted(self) -> list[str]:
        """The holes between the versions that a person accepted, as ranges."""
        return list(self.spec.accepted)

    @property
    def seed(self) -> int:
        """Seed of the data set; a repeatable training takes all its randomness from it."""
        return self.spec.seed

    @property
    def model(self) -> Path | None:
        """Folder of the model to evaluate, in ``train.model.evaluate``; None in a training."""
        model = job_model()
        return None if model is None or self.roots.root is None else self.roots.root / model

    @property
    def start_model(self) -> Path | None:
        """Folder of the downloaded model to start from; None without ``train.model.download``.

        Its manifest and listing are compared; its bytes were, after the download.

        Raises:
            JobRejectedError: The folder is gone, differs from its manifest, or the publication root
                is not known.
        """
        if self.spec.start_model is None:
            return None
        return open_start_model(self.roots.root, self.spec.start_model)

    @property
    def rendezvous(self) -> str:
        """Address of the ranks for ``init_method`` of ``torch.distributed.init_process_group``.

        ``env://`` if ``MASTER_ADDR`` and ``MASTER_PORT`` are set, else the URL of a file that only
        this launch uses.

        Raises:
            ConfigError: This process was not started by a launcher.
        """
        if (found := rendezvous()) is None:
            raise ConfigError(
                "expected MASTER_ADDR and MASTER_PORT to say where the ranks meet, they are not"
                " set; start the rank by a launcher of trainfeed, or set both"
            )
        return found

    @property
    def recomputed(self) -> Recomputed:
        """Work that was computed a second time after kills; known on rank 0 after ``restore``."""
        return self._state.log.recomputed

    def open(self, split: str) -> DatasetReader:
        """Open a split of all versions as one data set.

        Raises:
            ChecksumError: The manifest of a version is not the one in the job file.
            ConfigError: There is no such split.
        """
        return self._state.loaders.open(split)

    def loader(
        self, split: str, *, batch_size: int, shuffle: bool = True, **options: Any
    ) -> DataLoader:
        """Create the loader of a split for this rank; ``close`` of the job closes it.

        Rank, number of ranks and seed are those of the job. After ``restore`` the first loader of
        a split starts at the checkpoint's position. ``save`` keeps the position of the newest
        loader of each split.

        Args:
            split: Name of the split.
            batch_size: Rows per batch and rank.
            shuffle: Whether every epoch has an order of its own.
            options: Other options of ``DataLoader``, such as ``skip``, ``tail``, ``num_threads``.

        Raises:
            ChecksumError: The manifest of a version is not the one in the job file.
            ConfigError: There is no such split, or an option is out of range, or one of ``seed``,
                ``rank`` and ``world_size``, which the job sets.
        """
        given = {"batch_size": batch_size, "shuffle": shuffle, **options}
        return self._state.loaders.create(split, self.open(split), given)

    def save(self, step: int, write: Callable[[Path], None], *, keep: int = 3) -> None:
        """Save a checkpoint of the model and of the loaders: durable and whole, or not at all.

        Call on every rank; only rank 0 writes. Files of other ranks are not collected.

        Args:
            step: Number of completed steps, as the trainer counts them.
            write: Writes the model, and all else that a restored training needs, as files into the
                folder that it is called with. Called on rank 0 only.
            keep: Number of checkpoints that stay, at least 1.

        Raises:
            ConfigError: An argument is out of range, or ``write`` left no file.
            StorageError: The checkpoint could not be written; earlier ones are untouched.
        """
        step = whole("step", step, 0, _LARGEST_STEP)
        keep = whole("keep", keep, 1)
        if self.rank:
            return
        log = self._state.open_log()
        # Synced before the checkpoint: the note names the log's size, which must survive a crash.
        log.sync()
        note = CheckpointNote(
            step=step,
            job=self.spec.name,
            identity=self.spec.identity,
            samples=self._state.loaders.num_samples(),
            log_bytes=log.size,
            loaders=self._state.loaders.states(),
        )
        self._state.checkpoints.save(note, write, keep)

    def restore(self) -> Checkpoint | None:
        """Return the newest whole checkpoint, and set the loaders to its position.

        Call on every rank before the first step; loaders may be created before or after this call.
        A damaged checkpoint is skipped with a warning.

        Returns:
            The checkpoint; None when there is none, and the training starts from the beginning.

        Raises:
            JobRejectedError: The checkpoint belongs to a job with other data, code, seed or ranks.
            StorageError: A checkpoint cannot be read.
        """
        found = self._state.checkpoints.newest()
        if found is None:
            self._state.begin(0, 0)
            return None
        path, note = found
        self._state.loaders.restore(note.loaders)
        self._state.begin(note.log_bytes, note.samples)
        logger.info(
            "goes on at step %d, %d samples: %s; %s", note.step, note.samples, path, self.recomputed
        )
        return Checkpoint(path, note.step, note.samples)

    def log_metrics(self, step: int, **values: float) -> None:
        """Add a line to ``metrics.jsonl`` of the job's folder: ``step``, ``samples``, ``values``.

        With ``train.tracking.tensorboard`` the values are also written to event files.

        ``samples`` is the number of samples, over all epochs, that all ranks have read from the
        loader of the split ``train``, or else of the split whose loader was created first; ``skip``
        of a loader counts the same. Only rank 0 writes; calls on other ranks do nothing. Without
        ``restore``, the first call removes the lines of a killed attempt.

        Args:
            step: Number of completed steps, as the trainer counts them.
            values: Name → number; NaN and infinities are written as text, such as ``"nan"``.

        Raises:
            ConfigError: A name is not allowed, or a value is no number.
            StorageError: The line could not be written.
        """
        step = whole("step", step, 0, _LARGEST_STEP)
        if self.rank:
            return
        self._state.open_log().append(step, self._state.loaders.num_samples(), values)
        faults.point(f"train.step{step}")

    def progress(self, done: int, total: int) -> None:
        """Write the progress to ``progress.json`` of the job's folder; only rank 0 writes.

        Raises:
            ConfigError: A value is no whole number, or ``done`` is more than ``total``.
        """
        if not self.rank:
            self._state.progress.set(done, total)

    def close(self) -> None:
        """Close loaders and metrics log; the runtime calls it after the training function."""
        self._state.close()


# --- The ranks of a training job: what ``train.py`` gets, state and metrics, and a rank's lease

# A rank imports this room before it watches for the death of its launcher.

"""The argument of a training function: versions, loaders, output folder, checkpoints, metrics.

A training that was killed continues from its last checkpoint: ``restore`` returns the files of the
last ``save``, and resets loaders and metrics log to the state that they had at that time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from trainfeed import faults
from trainfeed.config import job_model, rendezvous
from trainfeed.dataset import Version
from trainfeed.errors import ChecksumError, ConfigError
from trainfeed.jobs import JobRoots, JobSpec, JobVersion
from trainfeed.loader import DataLoader
from trainfeed.readers import DatasetReader
from trainfeed.tracking import TENSORBOARD, EventFiles
from trainfeed.training._checkpoint_file import Checkpoint, CheckpointNote
from trainfeed.training._checkpoints import CHECKPOINTS, Checkpoints
from trainfeed.training._metrics_log import METRICS_LOG, MetricsLog, Recomputed
from trainfeed.training._progress import PROGRESS_FILE, Progress
from trainfeed.training.transfers import open_start_model
from trainfeed.whole_numbers import whole

__all__ = ["TrainingJob"]

_LARGEST_STEP: Final = 10**12 - 1
_OURS: Final = frozenset({"seed", "rank", "world_size"})

logger = logging.getLogger(__name__)


@dataclass
class _Run:
    """The mutable state of a ``TrainingJob``, which is frozen.

    Attributes:
        log: The metrics log.
        progress: The progress file.
        loaders: The newest loader of each split.
        totals: Number of samples of an epoch, by split.
        states: States from the checkpoint, by split, for loaders that are not created yet.
        versions: Opened versions by path: each manifest is read once.
    """

    log: MetricsLog
    progress: Progress
    loaders: dict[str, DataLoader] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)
    states: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    versions: dict[Path, Version] = field(default_factory=dict)


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
    _run: _Run = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        home = self.output.parent
        events = EventFiles(home / TENSORBOARD, self.spec.name) if self.spec.tensorboard else None
        run = _Run(MetricsLog(home / METRICS_LOG, events), Progress(home / PROGRESS_FILE))
        object.__setattr__(self, "_run", run)

    @property
    def intervals(self) -> list[str]:
        """Names of the intervals that are read, in order."""
        return [version.interval for version in self.spec.versions]

    @property
    def skipped(self) -> list[str]:
        """Names of the intervals of the window that were left out by decision."""
        return list(self.spec.skipped)

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
        return self._run.log.recomputed

    def open(self, split: str) -> DatasetReader:
        """Open a split of all versions as one data set.

        Raises:
            ChecksumError: The manifest of a version is not the one in the job file.
            ConfigError: There is no such split.
        """
        return DatasetReader([self._open(version) for version in self.spec.versions], split)

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
        if given := sorted(_OURS & options.keys()):
            raise ConfigError(
                f"expected no {', '.join(given)} for a loader of a job, whose they are; leave them"
                " out, or make a DataLoader of job.open(…)"
            )
        data = self.open(split)
        loader = DataLoader(
            data,
            batch_size,
            shuffle=shuffle,
            seed=self.seed,
            rank=self.rank,
            world_size=self.world_size,
            **options,
        )
        if (state := self._run.states.pop(split, None)) is not None:
            loader.load_state_dict(state)
        self._run.loaders[split] = loader
        self._run.totals[split] = data.num_samples
        return loader

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
        log = self._log()
        # Synced before the checkpoint: the note names the log's size, which must survive a crash.
        log.sync()
        note = CheckpointNote(
            step=step,
            job=self.spec.name,
            identity=self.spec.identity,
            samples=self._samples(),
            log_bytes=log.size,
            loaders={split: each.state_dict() for split, each in self._run.loaders.items()},
        )
        self._checkpoints().save(note, write, keep)

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
        found = self._checkpoints().newest()
        if found is None:
            self._begin(0, 0)
            return None
        path, note = found
        self._run.states.update(note.loaders)
        for split in self._run.loaders.keys() & note.loaders.keys():
            self._run.loaders[split].load_state_dict(self._run.states.pop(split))
        self._begin(note.log_bytes, note.samples)
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
        self._log().append(step, self._samples(), values)
        faults.point(f"train.step{step}")

    def progress(self, done: int, total: int) -> None:
        """Write the progress to ``progress.json`` of the job's folder; only rank 0 writes.

        Raises:
            ConfigError: A value is no whole number, or ``done`` is more than ``total``.
        """
        if not self.rank:
            self._run.progress.set(done, total)

    def close(self) -> None:
        """Close loaders and metrics log; the runtime calls it after the training function."""
        for loader in self._run.loaders.values():
            loader.close()
        self._run.log.close()

    def _checkpoints(self) -> Checkpoints:
        return Checkpoints(self.output.parent / CHECKPOINTS, self.spec)

    def _begin(self, log_bytes: int, samples: int) -> None:
        if not self.rank:
            self._run.log.begin(log_bytes, samples)

    def _log(self) -> MetricsLog:
        if not self._run.log.is_open:
            self._begin(0, 0)
        return self._run.log

    def _samples(self) -> int:
        """Return the number of samples, over all epochs, that all ranks have read; see above."""
        loaders = self._run.loaders
        if not loaders:
            return 0
        # ``position`` of a loader's state counts the samples of all ranks within the epoch.
        split = "train" if "train" in loaders else next(iter(loaders))
        state = loaders[split].state_dict()
        place: int = state["epoch"] * self._run.totals[split] + state["position"]
        return place

    def _open(self, planned: JobVersion) -> Version:
        path = self.roots.version(planned)
        if (version := self._run.versions.get(path)) is None:
            version = self._run.versions[path] = Version.open(path)
        if version.manifest_sha256 != planned.manifest_sha256:
            raise ChecksumError(
                f"expected the version with manifest {planned.manifest_sha256}, got"
                f" {version.manifest_sha256}",
                path=str(path),
            )
        return version

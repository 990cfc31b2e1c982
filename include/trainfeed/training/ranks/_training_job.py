"""The argument of a training function: versions, loaders, output folder, checkpoints, metrics.

A training that was killed continues from its last checkpoint: ``restore`` returns the files of the
last ``save``, and resets loaders and metrics log to the state that they had at that time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from trainfeed import faults
from trainfeed.config import job_model, rendezvous
from trainfeed.errors import ConfigError
from trainfeed.jobs import JobRoots, JobSpec
from trainfeed.loader import DataLoader
from trainfeed.readers import DatasetReader
from trainfeed.training.checkpoints import Checkpoint, CheckpointNote
from trainfeed.training.ranks._metrics_log import Recomputed
from trainfeed.training.ranks._rank_state import RankState
from trainfeed.training.transfers import open_start_model
from trainfeed.whole_numbers import whole

__all__ = ["TrainingJob"]

_LARGEST_STEP: Final = 10**12 - 1

logger = logging.getLogger(__name__)


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

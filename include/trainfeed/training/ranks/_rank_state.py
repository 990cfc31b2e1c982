"""The parts of a ``TrainingJob`` that change while it runs; the job itself is frozen."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from trainfeed.jobs import JobRoots, JobSpec
from trainfeed.tracking import TENSORBOARD, EventFiles
from trainfeed.training.checkpoints import CHECKPOINTS, Checkpoints
from trainfeed.training.ranks._job_loaders import JobLoaders
from trainfeed.training.ranks._metrics_log import METRICS_LOG, MetricsLog
from trainfeed.training.ranks._progress import PROGRESS_FILE, Progress

__all__ = ["RankState"]


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

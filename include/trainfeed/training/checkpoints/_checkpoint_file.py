"""The file ``checkpoint.json`` beside the trainer's files: job, step, loaders, digests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trainfeed.jobs import ResultFile, read_checkpoint_note, seal_checkpoint_note

__all__ = ["CHECKPOINT_FILE", "Checkpoint", "CheckpointNote", "read_checkpoint"]

CHECKPOINT_FILE: Final = "checkpoint.json"


@dataclass(frozen=True)
class CheckpointNote:
    """The content of ``checkpoint.json``, except the list of files.

    Attributes:
        step: Number of the step, as the trainer counts steps.
        job: Name of the job.
        identity: Identity of the job; a checkpoint of a job with another identity is refused.
        samples: Number of samples, over all epochs, that all ranks together had read.
        log_bytes: Size of the metrics log at that step, in bytes.
        loaders: State of each loader of the job, by split.
    """

    step: int
    job: str
    identity: str
    samples: int
    log_bytes: int
    loaders: Mapping[str, Mapping[str, Any]]

    def to_bytes(self, files: Mapping[str, ResultFile]) -> bytes:
        """Return the bytes of ``checkpoint.json``; their last member is a digest of the rest."""
        return seal_checkpoint_note({**vars(self), "loaders": dict(self.loaders)}, files)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose files have all been verified.

    Attributes:
        path: Folder with the files that ``write`` left there; read only.
        step: Number of the step at which it was saved.
        samples: Number of samples, over all epochs, that all ranks together had read.
    """

    path: Path
    step: int
    samples: int


def read_checkpoint(folder: Path) -> CheckpointNote:
    """Return the note of a checkpoint, after all of its files are read and verified.

    Raises:
        ChecksumError: A file differs from the note in size or digest.
        FormatError: ``checkpoint.json`` is damaged.
        NotFoundError: A file of the checkpoint is gone.
    """
    note, _ = read_checkpoint_note(folder / CHECKPOINT_FILE, CheckpointNote)
    return note

"""The checkpoints of a job: one folder each, whole or absent, sealed by a note."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trainfeed.core import faults
from trainfeed.errors import (
    ConfigError,
    ConflictError,
    FormatError,
    JobRejectedError,
    NotFoundError,
)
from trainfeed.files import (
    durable_file,
    is_unfinished,
    listed,
    make_folders,
    os_errors,
    sync_folder,
    unfinished_name,
    walk,
)
from trainfeed.files.stores import posix
from trainfeed.training.jobs import (
    JobSpec,
    ResultFile,
    digested_below,
    read_checkpoint_note,
    seal_checkpoint_note,
)

# --- The file ``checkpoint.json`` beside the trainer's files: job, step, loaders, digests

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


# --- The checkpoints of a job: one folder each, which appears whole by one rename, or not at all

CHECKPOINTS: Final = "checkpoints"
_NAME: Final = re.compile("[0-9]{12}")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one job.

    Attributes:
        folder: Folder of all checkpoints; the first one creates it.
        job: The job.
    """

    folder: Path
    job: JobSpec

    def save(self, note: CheckpointNote, write: Callable[[Path], None], keep: int) -> None:
        """Make a checkpoint durable, then remove all but the newest ``keep``.

        An existing whole checkpoint of the same step and job is kept, not replaced.

        Args:
            note: Content of ``checkpoint.json``.
            write: Writes the trainer's files into the folder that it is called with.
            keep: Number of checkpoints that stay, at least 1.

        Raises:
            ConfigError: ``write`` left no file, or a link, or ``checkpoint.json``.
            JobRejectedError: The checkpoint of that step belongs to another job.
            StorageError: The checkpoint could not be written; earlier ones are untouched.
        """
        make_folders(self.folder)
        self._remove_leftovers()
        target = self.folder / f"{note.step:012d}"
        staging = self.folder / unfinished_name(target.name)
        with os_errors(staging):
            staging.mkdir()
        try:
            write(staging)
            self._seal(note, staging)
            faults.point("checkpoint.before_rename")
            self._publish(staging, target)
            faults.point("checkpoint.after_rename")
        finally:
            posix.remove_tree(staging)
        self._prune(keep)

    def newest(self) -> tuple[Path, CheckpointNote] | None:
        """Return folder and note of the newest checkpoint that is whole; None if there is none.

        Raises:
            JobRejectedError: That checkpoint belongs to another job.
        """
        for path in self._paths():
            try:
                note = read_checkpoint(path)
            except (FormatError, NotFoundError) as error:
                logger.warning("checkpoint %s is not whole and is passed over: %s", path, error)
                continue
            self._require_ours(path, note)
            return path, note
        return None

    def _require_ours(self, path: Path, note: CheckpointNote) -> None:
        if note.identity != self.job.identity:
            raise JobRejectedError(
                f"expected a checkpoint of job {self.job.name} with identity {self.job.identity},"
                f" got one of job {note.job} with {note.identity} in {path}: its data, code, seed"
                " or ranks are others; nothing was changed; move the folder away and train again"
            )

    def _seal(self, note: CheckpointNote, staging: Path) -> None:
        files = digested_below(staging)
        others = [path for path in walk(staging) if path.is_symlink()]
        if not files or others or CHECKPOINT_FILE in files:
            got = others[0].name if others else ", ".join(files) or "nothing"
            raise ConfigError(
                f"expected plain files in the folder that the function given to save gets, none of"
                f" them called {CHECKPOINT_FILE}, got {got}; the checkpoints before are untouched;"
                " write the model into a file there"
            )
        # Order: first the trainer's files, then the note with their digests, then the folders. So a
        # note on disk after a crash never names a file whose bytes were not synced.
        for name in files:
            _sync(staging / name)
        with durable_file(staging / CHECKPOINT_FILE) as file:
            file.write(note.to_bytes(files))
        for path in [*(path for path in walk(staging) if path.is_dir()), staging]:
            sync_folder(path)

    def _publish(self, staging: Path, target: Path) -> None:
        try:
            posix.rename_directory(staging, target)
        except ConflictError:
            # A checkpoint of this step exists, whole or damaged: an earlier attempt came this far.
            if self._is_whole(target):
                return
            self._remove(target)
            posix.rename_directory(staging, target)
        posix.sync_dir(self.folder)

    def _is_whole(self, path: Path) -> bool:
        try:
            self._require_ours(path, read_checkpoint(path))
        except (FormatError, NotFoundError):
            return False
        return True

    def _prune(self, keep: int) -> None:
        for path in list(self._paths())[keep:]:
            self._remove(path)

    def _remove(self, path: Path) -> None:
        """Rename a checkpoint, then remove it: a kill leaves no partial one under its name."""
        away = path.with_name(unfinished_name(path.name))
        posix.rename_directory(path, away)
        posix.remove_tree(away)

    def _remove_leftovers(self) -> None:
        for path in listed(self.folder):
            if is_unfinished(path.name):
                posix.remove_tree(path)

    def _paths(self) -> Iterator[Path]:
        """Yield the folders that are named by a step, the newest first."""
        if self.folder.is_dir():
            names = (path for path in listed(self.folder) if _NAME.fullmatch(path.name))
            yield from sorted(names, reverse=True)


def _sync(path: Path) -> None:
    with os_errors(path):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

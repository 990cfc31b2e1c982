"""What a checkpoint is on disk: the trainer's files, and one that says what they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trainfeed.dataset import canonical
from trainfeed.errors import ChecksumError, FormatError
from trainfeed.jobs import ResultFile, digested, files_from_json, files_to_json
from trainfeed.paths import read_plain

__all__ = ["CHECKPOINT_FILE", "Checkpoint", "CheckpointNote", "read_checkpoint"]

CHECKPOINT_FILE: Final = "checkpoint.json"
_MAX_BYTES: Final = 16 << 20


@dataclass(frozen=True)
class CheckpointNote:
    """What a checkpoint says beside the trainer's files.

    Attributes:
        step: As the trainer numbers its steps.
        job: Name of the job.
        identity: Identity of the job: a checkpoint of other data, code or seed is another one.
        samples: Samples of the run that all ranks together had got.
        log_bytes: Size of the log of metrics at that point.
        loaders: State of each loader of the job, by split.
    """

    step: int
    job: str
    identity: str
    samples: int
    log_bytes: int
    loaders: Mapping[str, Mapping[str, Any]]

    def to_bytes(self, files: Mapping[str, ResultFile]) -> bytes:
        """Return the content of the file, sealed by its digest."""
        value = {**vars(self), "loaders": dict(self.loaders), "files": files_to_json(files)}
        return canonical.seal(canonical.dumps(value).removesuffix(b"}"))


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was found whole.

    Attributes:
        path: Its folder, with the files that ``write`` left there; not to be changed.
        step: The step that it was saved for.
        samples: Samples of the run, through all epochs, that all ranks together had got.
    """

    path: Path
    step: int
    samples: int


def read_checkpoint(folder: Path) -> CheckpointNote:
    """Return what a checkpoint says, having read all of its files.

    Raises:
        FormatError: A file of it is damaged, or is not one of a checkpoint.
        NotFoundError: A file of it is gone.
    """
    path = folder / CHECKPOINT_FILE
    data = read_plain(path, follow=False, max_bytes=_MAX_BYTES)
    canonical.require_intact(data, path=str(path))
    found = canonical.loads(data, path=str(path))
    try:
        files = files_from_json(found.pop("files"))
        del found["digest"]
        note = CheckpointNote(**found)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FormatError("expected a checkpoint, got another file", path=str(path)) from error
    for name, expected in files.items():
        if (got := digested(folder / name)) != expected:
            raise ChecksumError(
                f"expected {expected.size} bytes with SHA-256 {expected.sha256}, got {got.size}"
                f" with {got.sha256}",
                path=str(folder / name),
            )
    return note

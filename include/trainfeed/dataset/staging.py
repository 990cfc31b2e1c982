"""A folder that grows out of sight and becomes visible by one rename: versions, models.

A try writes each file below ``_staging/tmp`` under a name of its own, syncs, and renames onto the
final name in the staged folder. So the folder that is published never holds an unfinished file, not
even one of a try that nobody knows of any more. Publication then is: seal, verify, commit, confirm;
everything before the rename can be repeated, and so can the confirmation.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from trainfeed import faults
from trainfeed.dataset.layout import check_name
from trainfeed.errors import CommitUnknownError, ConflictError, StorageError
from trainfeed.paths import (
    DigestedFile,
    UnfinishedFile,
    make_folders,
    os_errors,
    unfinished_name,
    walk,
)
from trainfeed.storage import posix

__all__ = ["StagedFile", "commit_folder", "confirm_folder", "seal_folder"]

_BUFFER_BYTES: Final = 1 << 20
_FOLDER_MODE: Final = 0o755


class StagedFile(DigestedFile):
    """A binary file that gets its name in a staged folder when it is complete.

    Use it as a context manager; leaving it with an exception removes the file. Publication syncs
    the folder.

    Args:
        staged: The folder that is to be published; it exists, below a staging folder.
        name: Final name; may lie folders deep, as in ``quarantine/part.arrow``.
        mode: Permissions of the finished file.

    Attributes:
        num_bytes: Bytes written so far.
        sha256: Digest of what was written so far, in hex.
    """

    def __init__(self, staged: Path, name: str, *, mode: int) -> None:
        tmp = staged.parent / "tmp"
        with os_errors(tmp):
            make_folders(tmp)
        self._staged = staged
        self._target = self._staged.joinpath(*map(check_name, name.split("/")))
        self._mode = mode
        self._new = UnfinishedFile(
            self._target,
            unfinished=tmp / unfinished_name(staged.name),
            mode=0o600,
            buffer_bytes=_BUFFER_BYTES,
        )
        super().__init__(self._new.file, hashlib.sha256())

    @property
    def sha256(self) -> str:
        """Digest of what was written so far, in hex."""
        return self.hexdigest

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._new:
            if error is None:
                self._finish()

    def _finish(self) -> None:
        self._new.set_mode(self._mode)
        self._new.sync()
        faults.point("staging.before_rename")
        # Without that of the staged folder: one that was published must not come back.
        for folder in reversed(self._target.relative_to(self._staged).parents[:-1]):
            with os_errors(self._target):
                (self._staged / folder).mkdir(_FOLDER_MODE, exist_ok=True)
        self._new.replace(is_folder_synced=False)


def seal_folder(staged: Path) -> None:
    """Make names as durable as contents: sync every folder, inner ones first.

    Raises:
        StorageError: The file system refused or failed.
    """
    folders = [path for path in walk(staged) if path.is_dir()]
    for folder in [*sorted(folders, reverse=True), staged]:
        # Readers run under other accounts, so the mode must not depend on the umask.
        folder.chmod(_FOLDER_MODE)
        posix.sync_dir(folder)


def commit_folder(staged: Path, target: Path) -> bool:
    """Rename a sealed folder to the name that readers know: the commit.

    Args:
        staged: The folder.
        target: Its name from now on; the folder above it is made.

    Returns:
        False when the name was taken; nothing was moved then.

    Raises:
        CommitUnknownError: Nobody can tell whether it took place; look, then try again.
        StorageError: The file system refused or failed.
    """
    # The folder above must be durable before anything is renamed into it.
    posix.make_public_dir(target.parent)
    posix.sync_dir(target.parent.parent)
    try:
        posix.rename_directory(staged, target)
    except ConflictError:
        return False
    return True


def confirm_folder(target: Path, staging: Path) -> None:
    """Make the commit durable. Every run does so: an attempt killed after the rename did not.

    Args:
        target: What was published.
        staging: The folder that it came from lay here.

    Raises:
        CommitUnknownError: The file system did not confirm it.
    """
    try:
        posix.sync_dir(target.parent)
        posix.sync_dir(staging)
    except (StorageError, OSError) as error:
        raise CommitUnknownError(
            f"{target} was renamed into place, but the file system did not confirm it:"
            f" {error}; nothing was deleted; run the task again: it first looks whether the"
            " version is there"
        ) from error

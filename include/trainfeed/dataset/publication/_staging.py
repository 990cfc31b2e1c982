"""Staged folders: filled where no reader looks, and published by one rename (versions, models).

Each file is written below ``_staging/tmp`` under a name that no other attempt uses, synced, and
renamed into the staged folder. So the published folder never holds an unfinished file, not even one
of an earlier attempt that still runs. The steps of a publication are seal, verify, commit, confirm;
each step before the commit can be repeated, and so can the confirmation.
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
    """A binary file that appears in a staged folder when it is complete.

    Use as a context manager; leaving with an exception removes the file. The folder itself is
    synced later, by ``seal_folder``.

    Args:
        staged: The folder that is to be published; exists, inside a staging folder.
        name: Final relative path, with or without subfolders, as in ``quarantine/part.arrow``.
        mode: Permissions of the finished file.

    Attributes:
        num_bytes: Number of bytes written so far.
        sha256: SHA-256 of the bytes written so far, in hex.
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
        """SHA-256 of the bytes written so far, in hex."""
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
        # Only folders below the staged folder are created, never the staged folder: after the
        # commit it is gone, and an earlier attempt that still runs must not bring it back.
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
        target: Path after the commit; its parent folder is created.

    Returns:
        False when ``target`` exists already; nothing was moved then.

    Raises:
        CommitUnknownError: The file system did not tell whether the rename took place; a repeated
            call finds out.
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
    """Make the commit durable; call it also when the version was found published already.

    An earlier attempt may have been killed between its rename and this step.

    Args:
        target: The published folder.
        staging: The staging folder that the staged folder was in.

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

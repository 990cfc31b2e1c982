"""Publishes new files of a folder together: by the rename of a folder, or by a journal."""

from __future__ import annotations

import fcntl
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from trainfeed.core import faults
from trainfeed.errors import ConflictError
from trainfeed.files import commit_name, make_folders, os_errors, sync_folder
from trainfeed.files.stores.mounts import file_lock
from trainfeed.files.stores.posix import remove_tree, rename_directory

_STAGING: Final = ".tmp"
_OWNER: Final = ".owner"
# A publication only renames files; if another one takes longer than this, the file system is
# broken.
_LOCK_S: Final = 600.0


class Publication(Protocol):
    """A set of new files for a folder, and the announcement by which readers find them."""

    @property
    def names(self) -> Sequence[str]:
        """Names of the files, in the order in which they are moved."""
        ...

    def owns(self, name: str) -> bool:
        """Whether a file of this name belongs to the old set or the new one."""
        ...

    def save(self, staging: Path) -> None:
        """Write the journal to the folder durably; ``Journal.load`` reads it."""
        ...

    def prepare(self, output: Path) -> None:
        """Make the preparations before the commit; after an error nothing has changed."""
        ...

    def withdraw(self, output: Path) -> None:
        """Remove the announcement of the old set, before the first file is moved."""
        ...

    def announce(self, commit: Path, output: Path) -> None:
        """Write the announcement of the new set, after all files have their names."""
        ...


@dataclass(frozen=True)
class Journal:
    """Publications under one prefix into one folder.

    Attributes:
        output: The folder.
        prefix: Start of the names of the staging folders, the lock and the commit folder.
        load: Function from a commit folder to its publication; None if the publication was
            announced already.
    """

    output: Path
    prefix: str
    load: Callable[[Path], Publication | None]

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """Make a staging folder; after an error it is removed, and nothing else has changed.

        Staging folders of killed processes are removed first. The file ``<staging folder>.owner``
        is locked while its owner is alive, so a folder in use is left alone.

        Raises:
            StorageError: The file system refused.
        """
        beside = not self.output.exists()
        parent = self.output.parent if beside else self.output
        with os_errors(parent):
            make_folders(parent)
        self._remove_dead()
        with owned_folder(parent, self._beside if beside else self._inside) as folder:
            yield folder

    def publish(self, staging: Path, publication: Publication) -> None:
        """Make the files of a staging folder visible; the staging folder is then gone.

        Raises:
            ConflictError: A folder has the name of a file; nothing was published.
            StorageError: The file system refused. Either the old files are unchanged, or the new
                ones are committed, and the next call, or ``finish``, completes the publication.
        """
        publication.save(staging)
        sync_folder(staging)
        for name in publication.names:
            refuse_folder(self.output / name)
        faults.point("convert.before_commit")
        if not self._publish_folder(staging):
            self._publish_files(staging, publication)

    def finish(self) -> bool:
        """Complete a committed, interrupted publication, and remove dead staging folders.

        This is safe at any time, also while other processes publish.

        Returns:
            Whether a publication was completed.

        Raises:
            ConflictError: The committed publication is of another kind.
            StorageError: The file system refused.
        """
        self._remove_dead()
        if not self._commit.exists():
            return False
        with self._locked():
            return self._carry_out()

    @property
    def _beside(self) -> str:
        return f".{self.output.name}.{self.prefix}."

    @property
    def _inside(self) -> str:
        return f".{self.prefix}."

    @property
    def _commit(self) -> Path:
        return self.output / commit_name(self.prefix)

    def _publish_folder(self, staging: Path) -> bool:
        """Rename the staging folder to the output folder; return False if that exists."""
        if self.output.exists():
            return False
        try:
            rename_directory(staging, self.output)
        except ConflictError:
            # Another process has made the output folder meanwhile.
            return False
        faults.point("convert.after_commit")
        sync_folder(self.output.parent)
        return True

    def _publish_files(self, staging: Path, publication: Publication) -> None:
        with self._locked():
            self._carry_out()
            publication.prepare(self.output)
            rename_directory(staging, self._commit)
            sync_folder(self.output)
            faults.point("convert.after_commit")
            self._carry_out()

    # The order of these steps is the protocol; every one of them may be repeated after a kill:
    # withdraw, move, delete, sync, announce, sync, remove the commit folder.
    def _carry_out(self) -> bool:
        if not self._commit.exists():
            return False
        publication = self.load(self._commit)
        if publication is not None:
            with os_errors(self.output):
                publication.withdraw(self.output)
                self._move(publication.names)
                self._delete_stale(publication)
                faults.point("convert.before_manifest")
                sync_folder(self.output)
                publication.announce(self._commit, self.output)
            sync_folder(self.output)
        elif any(self._commit.iterdir()):
            raise ConflictError(
                f"{self._commit} holds a publication of files of another kind; nothing was"
                " changed; wait until that publication ends, or move the folder away"
            )
        faults.point("convert.before_cleanup")
        remove_tree(self._commit)
        return True

    def _move(self, names: Sequence[str]) -> None:
        for name in names:
            # An interrupted try may have moved this file already.
            with suppress(FileNotFoundError):
                (self._commit / name).replace(self.output / name)
                faults.point("convert.after_move")

    def _delete_stale(self, publication: Publication) -> None:
        wanted = set(publication.names)
        for path in list(self.output.iterdir()):
            if publication.owns(path.name) and path.name not in wanted:
                path.unlink()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with file_lock(self.output / f".{self.prefix}.lock", timeout_s=_LOCK_S):
            yield

    def _remove_dead(self) -> None:
        """Remove the staging folders, beside the output folder and in it, whose owner has died."""
        _remove_dead(self.output.parent, self._beside)
        _remove_dead(self.output, self._inside)


@contextmanager
def owned_folder(parent: Path, start: str) -> Iterator[Path]:
    """Make a folder of this process; at the end it is removed, unless it was renamed.

    Folders with the same start of processes that were killed are removed first.

    Args:
        parent: Folder of the new folder.
        start: Start of its name.

    Raises:
        StorageError: The file system refused.
    """
    _remove_dead(parent, start)
    folder = parent / f"{start}{uuid.uuid4().hex}{_STAGING}"
    path = folder.with_name(folder.name + _OWNER)
    with os_errors(path):
        owner = _locked_owner(path)
    try:
        with os_errors(folder):
            folder.mkdir(0o755)
        yield folder
    finally:
        # After a publication the folder is gone. After an error, an error of the cleanup must not
        # hide the first one.
        with suppress(Exception):
            remove_tree(folder)
            path.unlink(missing_ok=True)
        os.close(owner)


def _locked_owner(path: Path) -> int:
    """Make the owner file of a folder and lock it; return its descriptor."""
    while True:
        owner = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644)
        fcntl.flock(owner, fcntl.LOCK_EX)
        # Before the lock, another process may have taken the file for one of a dead owner and
        # removed it: a lock of a file without a name protects nothing.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(owner), path.stat()):
                return owner
        os.close(owner)


def _remove_dead(parent: Path, start: str) -> None:
    """Remove the folders whose names start so, and whose owner has died."""
    if not parent.is_dir():
        return
    with os_errors(parent):
        names = [path.name for path in parent.iterdir()]
    for name in names:
        if name.startswith(start) and name.endswith(_STAGING + _OWNER):
            _remove_if_dead(parent / name)


def refuse_folder(path: Path) -> None:
    """Refuse a path for a file where a folder is.

    Raises:
        ConflictError: A folder is at the path.
    """
    if path.is_dir() and not path.is_symlink():
        raise ConflictError(
            f"{path} is a folder; nothing was published; move it away, or choose another prefix"
        )


def _remove_if_dead(owner: Path) -> None:
    """Remove a staging folder and its owner file, unless the owner still holds the lock."""
    try:
        descriptor = os.open(owner, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove_tree(owner.with_name(owner.name.removesuffix(_OWNER)))
        remove_tree(owner)
    except BlockingIOError:
        pass
    finally:
        os.close(descriptor)

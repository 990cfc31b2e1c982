"""How new files of one kind appear in a folder together: by a folder's rename, or by a journal.

They are written into a staging folder of the same file system and synced there. A folder that does
not exist yet is then made by renaming the staging folder: nobody ever sees a part of it.

In a folder that exists, the staging folder is renamed to ``.<prefix>.commit``. With that the new
files are decided: the next call into the folder carries it out if this process cannot. Carrying it
out takes back what readers go by, moves the files to their names, deletes those of the old set that
the new one has not, and announces the new set last. A reader that goes by the announcement sees the
old set, or none, or the new one, whole.
"""

from __future__ import annotations

import fcntl
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from trainfeed import faults
from trainfeed.errors import ConflictError
from trainfeed.paths import commit_name, make_folders, os_errors, sync_folder
from trainfeed.storage.posix import file_lock, remove_tree, rename_directory

__all__ = ["Journal", "Publication", "refuse_folder"]

_STAGING: Final = ".tmp"
_OWNER: Final = ".owner"
# Publication moves files and copies none; a longer wait is one for a broken file system.
_LOCK_S: Final = 600.0


class Publication(Protocol):
    """New files of a folder, and what readers of them go by."""

    @property
    def names(self) -> Sequence[str]:
        """What the files are called, in the order in which they get their names."""
        ...

    def owns(self, name: str) -> bool:
        """Whether a file of this name belongs to the old set or the new one."""
        ...

    def save(self, staging: Path) -> None:
        """Write, durably, what ``load`` of the journal needs to find this in the folder again."""
        ...

    def prepare(self, output: Path) -> None:
        """Do what has to be done before the new files are decided; an error leaves all as it is."""
        ...

    def withdraw(self, output: Path) -> None:
        """Take back what readers go by, before the first file is moved."""
        ...

    def announce(self, commit: Path, output: Path) -> None:
        """Let readers go by the new files: all have their names."""
        ...


@dataclass(frozen=True)
class Journal:
    """Publications under one prefix into one folder.

    Attributes:
        output: The folder.
        prefix: What the names of the staging folders, the lock and the commit begin with.
        load: Finds a publication in the folder that it was saved to; None where it was announced
            already.
    """

    output: Path
    prefix: str
    load: Callable[[Path], Publication | None]

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """Make a staging folder; after an error it is removed, and nothing else has changed.

        What publications left that were killed is removed first. The file
        ``<staging folder>.owner`` is locked while its owner lives, so one that is being written is
        left alone.

        Raises:
            StorageError: The file system refused.
        """
        beside = not self.output.exists()
        parent = self.output.parent if beside else self.output
        with os_errors(parent):
            make_folders(parent)
        self._remove_dead()
        start = self._beside if beside else self._inside
        folder = parent / f"{start}{uuid.uuid4()}{_STAGING}"
        with _owned(folder):
            with os_errors(folder):
                folder.mkdir(0o755)
            yield folder

    def publish(self, staging: Path, publication: Publication) -> None:
        """Make the files of a staging folder visible; the folder is gone then.

        Raises:
            ConflictError: A folder has the name of a file; nothing was published.
            StorageError: The file system refused. The old files are as they were, or the new ones
                are decided and carried out by the next call, or by ``finish``.
        """
        publication.save(staging)
        sync_folder(staging)
        for name in publication.names:
            refuse_folder(self.output / name)
        faults.point("convert.before_commit")
        if not self._publish_folder(staging):
            self._publish_files(staging, publication)

    def finish(self) -> bool:
        """Carry out what an interrupted publication has decided, and remove what it has left.

        Safe to call at any time, also while others publish.

        Returns:
            Whether a publication was carried out.

        Raises:
            ConflictError: What was decided is of another kind.
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
        """Make the staging folder the output folder, unless there is one."""
        if self.output.exists():
            return False
        try:
            rename_directory(staging, self.output)
        except ConflictError:
            # Another process made it meanwhile.
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
            # Those that an earlier try has moved are gone from here.
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
        """Remove the staging folders, beside the output and in it, whose owner is gone."""
        for parent, start in ((self.output.parent, self._beside), (self.output, self._inside)):
            if not parent.is_dir():
                continue
            with os_errors(parent):
                names = [path.name for path in parent.iterdir()]
            for name in names:
                if name.startswith(start) and name.endswith(_STAGING + _OWNER):
                    _remove_if_dead(parent / name)


@contextmanager
def _owned(folder: Path) -> Iterator[None]:
    path = folder.with_name(folder.name + _OWNER)
    with os_errors(path):
        owner = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644)
        # A process that took it for a dead one's, before it was locked, lets go soon.
        fcntl.flock(owner, fcntl.LOCK_EX)
    try:
        yield
    finally:
        # After publication the folder is gone; after an error that one says more than this.
        with suppress(Exception):
            remove_tree(folder)
            path.unlink(missing_ok=True)
        os.close(owner)


def refuse_folder(path: Path) -> None:
    """Refuse a folder where a file is to be put.

    Raises:
        ConflictError: There is one.
    """
    if path.is_dir() and not path.is_symlink():
        raise ConflictError(
            f"{path} is a folder; nothing was published; move it away, or choose another prefix"
        )


def _remove_if_dead(owner: Path) -> None:
    """Remove the file of an owner, and its staging folder, unless the owner has the lock."""
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

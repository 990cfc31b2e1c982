"""What every file system promises, whatever its scheme.

Paths are absolute, separated by ``/``, without empty, ``.`` or ``..`` components, and mean what
they say: nothing is percent-decoded, no wildcard is expanded. ``Location`` makes such paths.

Methods, and the files they open, raise errors of the ``StorageError`` tree only. Any of them may
raise these; a method's ``Raises`` lists what comes on top:

* ``AccessDeniedError``: this user may not.
* ``QuotaExceededError``: a quota or the disk is full.
* ``UnsuitableStoreError``: the file system cannot do this at all, or cannot hold such a name.
* ``StorageError`` itself: what another try may get past, an unreachable server above all.

File systems are small values: they compare, hash, pickle and cross a fork. Their connections do
not; they are made when they are first needed. Any thread may use a file system. An open file
belongs to one thread at a time and must be closed before the process forks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import BinaryIO, Final, Protocol, TypeAlias

from trainfeed.errors import ConfigError, NotFoundError

__all__ = [
    "FILE_MODE",
    "FOLDER_MODE",
    "FileInfo",
    "FileInfos",
    "FileSystem",
    "has_file",
    "refuse_root",
]

# Work files hold raw records: the owner's group may read them, nobody else.
FILE_MODE: Final = 0o640
FOLDER_MODE: Final = 0o750


@dataclass(frozen=True)
class FileInfo:
    """One file or folder, as it was when it was looked at.

    Attributes:
        name: Last component of ``path``; empty for the root.
        path: Absolute path, without scheme.
        size_bytes: Length of a file; 0 for a folder.
        modified_ms: Milliseconds since 1970, UTC, by the file system's clock.
        is_dir: A folder rather than a file.
        file_id: What the file system calls the file, whatever its path: another one for another
            file of that path. None where the protocol does not tell.
    """

    name: str
    path: str
    size_bytes: int
    modified_ms: int
    is_dir: bool
    file_id: int | None = field(default=None, compare=False)


# Below, ``list`` is a method, so the type needs another name.
FileInfos: TypeAlias = list[FileInfo]


class FileSystem(Protocol):
    """Files and folders behind one scheme; see the module for paths, errors and threads."""

    @property
    def scheme(self) -> str:
        """What stands before ``://``."""
        ...

    def uri(self, path: str) -> str:
        """The URI that ``Location.parse`` turns into this file system and ``path``."""
        ...

    def open_read(self, path: str) -> BinaryIO:
        """Open a file for reading, buffered and seekable.

        A file that is replaced meanwhile is either read to its end as it was, or reading it
        fails; old and new bytes are never mixed. A file that ends early raises ``StorageError``.

        Raises:
            NotFoundError: There is no such file; a folder is none.
        """
        ...

    def open_write(self, path: str) -> BinaryIO:
        """Create a file and open it for writing, buffered and without seek.

        Missing parent folders are made. ``close`` returns when all bytes are on disk; until then,
        and after an error, the file holds any part of them.

        Raises:
            ConflictError: The name is taken; of two writers at once, one may hear it only from
                ``write`` or ``close``.
        """
        ...

    def stat(self, path: str) -> FileInfo:
        """Look at a file or folder; symbolic links are followed.

        Raises:
            NotFoundError: There is neither.
        """
        ...

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder; an error is an error and not a no."""
        ...

    def list(self, path: str) -> FileInfos:
        """What a folder holds, sorted by name, unfinished and hidden files included.

        Raises:
            NotFoundError: There is no such folder; a file is none.
        """
        ...

    def checksum(self, path: str) -> str | None:
        """What the file system knows of a closed file's content, as ``algorithm:digest``.

        None where it knows none, or where the protocol does not tell: nothing is read for it.

        Raises:
            NotFoundError: There is no such file.
        """
        ...

    def is_open(self, path: str) -> bool | None:
        """Whether a writer still has the file open although its length and time stand still.

        False where every write shows in length and time; None where the protocol does not tell.

        Raises:
            NotFoundError: There is no such file.
        """
        ...

    def make_dir(self, path: str) -> None:
        """Make a folder and its missing parents; fine if it is there.

        Raises:
            ConflictError: A file has the name.
            NotFoundError: A file stands where a parent should be.
        """
        ...

    def rename(self, source: str, target: str) -> None:
        """Give a file or folder a name that nobody has, atomically, and make the name durable.

        Raises:
            ConflictError: The target exists, as a file or as a folder, even an empty one. Nothing
                was moved, into it least of all.
            NotFoundError: There is no source, or no parent of the target.
        """
        ...

    def replace(self, source: str, target: str) -> None:
        """Give a file a name, atomically taking it from the file that has it, if any.

        Raises:
            ConflictError: The target is a folder.
            NotFoundError: There is no source, or no parent of the target.
        """
        ...

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """Delete a file or folder; fine if there is none.

        Args:
            path: Never the root.
            recursive: Delete a folder with all that it holds; symbolic links are not followed.

        Raises:
            ConflictError: The folder is not empty and ``recursive`` is not set.
            ConfigError: ``path`` is the root.
        """
        ...

    def write_atomic(self, path: str, write: Callable[[BinaryIO], None]) -> None:
        """Write a file that appears, or takes its predecessor's place, only when it is whole.

        Missing parent folders are made. After an error, in ``write`` as well, the name holds what
        it held before, and the temporary file beside it, ``.<name>.<hex>.tmp``, is removed.

        Args:
            path: The file.
            write: Gets the open temporary file, buffered, and leaves it open.

        Raises:
            ConflictError: A folder has the name.
        """
        ...

    def create_exclusive(self, path: str, data: bytes) -> bool:
        """Make a file of this content, unless the name is taken.

        The content is complete and on disk before it gets the name, so a writer that is killed
        leaves the name free, and a writer that loses finds the winner's file whole. Missing parent
        folders are made.

        Returns:
            True if this call made the file; False if the name was taken, whatever has it.

        Raises:
            CommitUnknownError: The file may have been made by this call; look.
        """
        ...

    def free_bytes(self, path: str) -> int | None:
        """How much can still be written below ``path``, which need not exist; None: unknown."""
        ...


def has_file(fs: FileSystem, path: str) -> bool:
    """``FileSystem.exists`` where a file is asked for by ``stat``."""
    try:
        fs.stat(path)
    except NotFoundError:
        return False
    return True


def refuse_root(path: str) -> None:
    """Refuse to delete a whole file system, which no stage ever wants.

    Raises:
        ConfigError: ``path`` is the root.
    """
    if not path.strip("/"):
        raise ConfigError("expected a path below the root to delete, got '/'; nothing was deleted")

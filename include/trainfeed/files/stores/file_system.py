"""The protocols of file systems, with and without a rename, and atomic creation by rename."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import BinaryIO, Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

from trainfeed.errors import (
    CommitUnknownError,
    ConfigError,
    ConflictError,
    NotFoundError,
    StorageError,
)
from trainfeed.files import unfinished_name

# --- The protocols of file systems

# Work files hold raw records: besides the owner, only the group may read them.
FILE_MODE: Final = 0o640
FOLDER_MODE: Final = 0o750


class Inode(NamedTuple):
    """A file of this machine, whatever its names.

    Attributes:
        device: Number of the file system.
        number: Number of the file in it.
        links: Number of its hard links, its names.
    """

    device: int
    number: int
    links: int


@dataclass(frozen=True)
class FileInfo:
    """One file or folder, at the time of the request.

    Attributes:
        name: Last component of ``path``; empty for the root.
        path: Absolute path, without scheme.
        size_bytes: Length of a file; 0 for a folder.
        modified_ms: Milliseconds since 1970, UTC, by the file system's clock.
        is_dir: A folder rather than a file.
        file_id: Number of the file in the file system: a new file with the same path has another
            one. None if the protocol does not give it.
        is_link: A symbolic link of this machine; the other facts are about its target.
        inode: What shows that two names of this machine are one file; None for other file systems.
        oddity: What the entry is, in words, if it is neither a file nor a folder; else None.
        replicas: How often HDFS keeps the file's bytes; None if the protocol does not give it.
        block_bytes: Size of the file's blocks in HDFS, but for the last one; None likewise.
    """

    name: str
    path: str
    size_bytes: int
    modified_ms: int
    is_dir: bool
    file_id: int | None = field(default=None, compare=False)
    is_link: bool = field(default=False, compare=False)
    inode: Inode | None = field(default=None, compare=False)
    oddity: str | None = field(default=None, compare=False)
    replicas: int | None = field(default=None, compare=False)
    block_bytes: int | None = field(default=None, compare=False)


# An alias, because ``list`` is a method in the class below.
FileInfos: TypeAlias = list[FileInfo]
# Whether the entry of a folder with this name is wanted.
Wanted: TypeAlias = Callable[[str], bool]


class FileSystem(Protocol):
    """Files and folders behind one scheme; see the module for paths, errors and threads."""

    @property
    def scheme(self) -> str:
        """The text before ``://``."""
        ...

    def uri(self, path: str) -> str:
        """The URI that ``Location.parse`` turns into this file system and ``path``."""
        ...

    def open_read(self, path: str) -> BinaryIO:
        """Open a file for reading, buffered and seekable.

        If the file is replaced meanwhile, reading either continues with the old content or fails;
        old and new bytes are never mixed. A file that ends early raises ``StorageError``.

        Raises:
            NotFoundError: The file is not there, or is a folder.
        """
        ...

    def open_write(self, path: str) -> BinaryIO:
        """Create a file and open it for writing, buffered and without seek.

        Missing parent folders are made. ``close`` returns when all bytes are on disk; until then,
        and after an error, the file may hold any part of them.

        Raises:
            ConflictError: The name is taken; with two writers at once, one may get this error only
                from ``write`` or ``close``.
        """
        ...

    def stat(self, path: str) -> FileInfo:
        """Return facts about a file or folder; symbolic links are followed.

        Raises:
            NotFoundError: The path does not exist.
        """
        ...

    def exists(self, path: str) -> bool:
        """Return whether the path exists; a problem with the answer is an error, never False."""
        ...

    def list(self, path: str, wanted: Wanted | None = None, *, broken: bool = False) -> FileInfos:
        """Return the entries of a folder, sorted by name, with unfinished and hidden files.

        Args:
            path: The folder.
            wanted: Returns whether an entry is wanted, by its name; facts about the others may cost
                a look at each. None for all.
            broken: Whether a symbolic link that leads nowhere is an entry, too, with an oddity; by
                default it is left out, as if it were not there.

        Raises:
            NotFoundError: The folder is not there, or is a file.
        """
        ...

    def checksum(self, path: str) -> str | None:
        """Return the checksum that the file system has for a closed file, as ``algorithm:digest``.

        None if there is none, or the protocol does not give it: the file is not read for it.

        Raises:
            NotFoundError: The file is not there, and something was asked about it.
        """
        ...

    def is_open(self, path: str) -> bool | None:
        """Return whether a writer still has the file open, even if length and time stay the same.

        False if every write shows in length and time; None if the protocol does not tell.

        Raises:
            NotFoundError: The file is not there.
        """
        ...

    def closed_files(self, path: str, entries: FileInfos) -> Set[str]:
        """Return the names of files of a folder that one request for all of them shows as closed.

        Of the others nothing is known: ``is_open`` tells it for each.

        Args:
            path: The folder.
            entries: All entries of the folder, from ``list``.

        Raises:
            NotFoundError: The folder is not there.
        """
        ...

    def make_dir(self, path: str) -> None:
        """Make a folder and its missing parents; an existing folder is kept.

        Raises:
            ConflictError: A file has the name.
            NotFoundError: A file has the name of a parent.
        """
        ...

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """Delete a file or folder; does nothing if there is none.

        Args:
            path: Never the root.
            recursive: Whether to delete a folder with its content; symbolic links are not followed.

        Raises:
            ConflictError: The folder is not empty and ``recursive`` is not set.
            ConfigError: ``path`` is the root.
        """
        ...

    def write_atomic(self, path: str, write: Callable[[BinaryIO], None]) -> None:
        """Write a file that appears, or replaces an existing one, only when it is complete.

        Missing parent folders are made. After an error, also in ``write``, the old file is still
        there, and the temporary file beside it, ``.<name>.<hex>.tmp``, is removed.

        Args:
            path: The file.
            write: Gets the open temporary file, buffered, and must leave it open.

        Raises:
            ConflictError: A folder has the name.
        """
        ...

    def create_exclusive(self, path: str, data: bytes) -> bool:
        """Make a file with this content, unless the name is taken.

        The content is complete and on disk before it gets the name. A killed writer leaves the
        name free, and a writer that comes second finds the complete file of the first. Missing
        parent folders are made.

        Returns:
            True if this call made the file; False if a file or folder had the name.

        Raises:
            CommitUnknownError: This call may have made the file; the caller has to look.
        """
        ...

    def free_bytes(self, path: str) -> int | None:
        """Return the bytes that can still be written below ``path``, or None if unknown.

        The path need not exist.
        """
        ...


@runtime_checkable
class RenamingFiles(FileSystem, Protocol):
    """A file system that can give a file or folder another name in one step; S3 cannot."""

    def rename(self, source: str, target: str) -> None:
        """Rename a file or folder to a free name, atomically, and make the name durable.

        Raises:
            ConflictError: The target exists, as a file or as a folder, even an empty one. Nothing
                was moved, and nothing was moved into the target.
            NotFoundError: The source or the parent of the target is not there.
        """
        ...

    def replace(self, source: str, target: str) -> None:
        """Rename a file, atomically replacing the file that has the name, if any.

        Raises:
            ConflictError: The target is a folder.
            NotFoundError: The source or the parent of the target is not there.
        """
        ...


def has_file(fs: FileSystem, path: str) -> bool:
    """Implement ``FileSystem.exists`` by ``stat``."""
    try:
        fs.stat(path)
    except NotFoundError:
        return False
    return True


def refuse_root(path: str) -> None:
    """Refuse to delete a whole file system, which no stage ever needs.

    Raises:
        ConfigError: ``path`` is the root.
    """
    if not path.strip("/"):
        raise ConfigError("expected a path below the root to delete, got '/'; nothing was deleted")


# --- Atomic creation of files for file systems without hard links, by their own rename


def temporary_path(path: str) -> str:
    """Return a path beside ``path`` that no other process or attempt uses."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{unfinished_name(name)}"


def replace_by_rename(fs: RenamingFiles, path: str, write: Callable[[BinaryIO], None]) -> None:
    """Implement ``write_atomic`` for a file system whose rename can replace a file."""
    with _temporary(fs, path) as temporary:
        with fs.open_write(temporary) as file:
            write(file)
        fs.replace(temporary, path)


def claim_by_rename(fs: RenamingFiles, path: str, data: bytes) -> bool:
    """Implement ``create_exclusive`` for a file system whose rename refuses an existing target."""
    # A look first: an existing file then costs no upload. The rename below decides.
    if fs.exists(path):
        return False
    with _temporary(fs, path) as temporary:
        with fs.open_write(temporary) as file:
            file.write(data)
        try:
            fs.rename(temporary, path)
        except ConflictError:
            return False
        except NotFoundError as error:
            # The file existed a moment ago: the client may have sent the same rename twice, and the
            # first one may have moved it.
            raise CommitUnknownError(
                f"{fs.uri(path)}: the temporary file was gone before it could be renamed;"
                " run the build again: it first looks whether the file is there"
            ) from error
    _check_claimed(fs, path, len(data))
    return True


def _check_claimed(fs: FileSystem, path: str, size_bytes: int) -> None:
    info = fs.stat(path)
    if info.is_dir or info.size_bytes != size_bytes:
        raise CommitUnknownError(
            f"{fs.uri(path)}: expected a file of {size_bytes} bytes after the rename, got {info}"
        )


@contextmanager
def _temporary(fs: FileSystem, path: str) -> Iterator[str]:
    temporary = temporary_path(path)
    try:
        yield temporary
    finally:
        # After success the file is gone. After a failure, the error of the block is more important
        # than one of this deletion.
        with suppress(StorageError):
            fs.delete(temporary)

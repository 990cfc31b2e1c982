"""Atomic creation of files for file systems without hard links, by their own rename."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from trainfeed.errors import (
    CommitUnknownError,
    ConflictError,
    NotFoundError,
    StorageError,
)
from trainfeed.paths import unfinished_name
from trainfeed.storage._base import FileSystem

__all__ = ["claim_by_rename", "replace_by_rename", "temporary_path"]


def temporary_path(path: str) -> str:
    """Return a path beside ``path`` that no other process or attempt uses."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{unfinished_name(name)}"


def replace_by_rename(fs: FileSystem, path: str, write: Callable[[BinaryIO], None]) -> None:
    """Implement ``write_atomic`` for a file system whose rename can replace a file."""
    with _temporary(fs, path) as temporary:
        with fs.open_write(temporary) as file:
            write(file)
        fs.replace(temporary, path)


def claim_by_rename(fs: FileSystem, path: str, data: bytes) -> bool:
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

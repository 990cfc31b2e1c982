"""Files of a cluster that appear whole or not at all: a file system's own operations, no links."""

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
    """A name beside ``path`` that no other process and no other try has."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{unfinished_name(name)}"


def replace_by_rename(fs: FileSystem, path: str, write: Callable[[BinaryIO], None]) -> None:
    """``write_atomic`` for a file system whose rename can take a name from a file."""
    with _temporary(fs, path) as temporary:
        with fs.open_write(temporary) as file:
            write(file)
        fs.replace(temporary, path)


def claim_by_rename(fs: FileSystem, path: str, data: bytes) -> bool:
    """``create_exclusive`` for a file system whose rename refuses an existing target."""
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
            # It was there a moment ago: an earlier send of the same rename may have moved it.
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
        # Gone already when all went well; else the error on its way out says more than this one.
        with suppress(StorageError):
            fs.delete(temporary)

"""Where records come from and go to: paths, or open binary files."""

from __future__ import annotations

import errno
import glob
import os
import stat
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

from trainfeed.errors import (
    AccessDeniedError,
    ConflictError,
    FormatError,
    NotFoundError,
    QuotaExceededError,
    StorageError,
)

__all__ = ["FilePath", "NewFile", "expand_paths", "open_file", "os_errors", "path_of", "write_all"]

FilePath: TypeAlias = str | os.PathLike[str]

_ERRORS: Final = {
    errno.ENOENT: NotFoundError,
    errno.EACCES: AccessDeniedError,
    errno.EPERM: AccessDeniedError,
    errno.EEXIST: ConflictError,
    errno.ENOSPC: QuotaExceededError,
    errno.EDQUOT: QuotaExceededError,
}


def path_of(file: FilePath | BinaryIO) -> str | None:
    """Return what to call a file in messages, None when it has no name."""
    if isinstance(file, str | os.PathLike):
        return os.fspath(file)
    name = getattr(file, "name", None)
    return name if isinstance(name, str) else None


@contextmanager
def os_errors(path: str | None) -> Iterator[None]:
    """Raise what the operating system refuses as the storage error that says so."""
    try:
        yield
    except OSError as error:
        kind = _ERRORS.get(error.errno or 0, StorageError)
        raise kind(f"{error.strerror or error} at {path or 'an unnamed file'}") from error


@contextmanager
def open_file(file: FilePath | BinaryIO) -> Iterator[BinaryIO]:
    """Open a path and close it at the end; give a binary file as it is and leave it open.

    Raises:
        NotFoundError: No file is at the path.
        FormatError: Something else than a file is.
        StorageError: It cannot be opened.
    """
    if not isinstance(file, str | os.PathLike):
        yield file
        return
    path = os.fspath(file)
    with os_errors(path):
        # Without O_NONBLOCK, opening a FIFO would wait for somebody to write to it.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise FormatError("expected a regular file, got a folder, a pipe or a device", path=path)
    with os.fdopen(fd, "rb", buffering=0) as opened:
        yield opened


def expand_paths(paths: FilePath | Sequence[FilePath]) -> list[str]:
    """Return the files that paths, comma lists and globs stand for.

    Args:
        paths: Files, or several separated by commas, or a list of such. Each part of a text may be
            a glob, whose matches are sorted by name; path objects are taken as they are.

    Raises:
        NotFoundError: A part matches no file; names the part.
    """
    parts = [paths] if isinstance(paths, str | os.PathLike) else paths
    expanded: list[str] = []
    for part in parts:
        if isinstance(part, str):
            for pattern in part.split(","):
                expanded += _matches(pattern)
        else:
            expanded.append(os.fspath(part))
    return expanded


def write_all(file: BinaryIO, data: bytes) -> None:
    """Write all of ``data``, also to a raw file, which may take less at once."""
    rest = memoryview(data)
    path = path_of(file)
    with os_errors(path):
        while rest:
            num_bytes = file.write(rest)
            if not num_bytes:
                raise StorageError(f"{path or 'an unnamed file'} takes no more bytes")
            rest = rest[num_bytes:]


class NewFile:
    """A file that gets its name when it is complete, and only if nobody has the name.

    Attributes:
        file: Where to write, until ``commit`` or ``abandon``.

    Raises:
        ConflictError: Somebody has the name.
    """

    def __init__(self, path: FilePath) -> None:
        self._path = Path(path)
        self._partial = self._path.with_name(f"{self._path.name}.{uuid.uuid4().hex}.tmp")
        if self._path.exists():
            raise ConflictError(f"{self._path} exists; choose another name, or delete it first")
        with os_errors(str(self._partial)):
            self.file: BinaryIO = self._partial.open("xb", buffering=0)

    def commit(self) -> None:
        """Make the bytes durable and give them their name.

        Raises:
            ConflictError: The name was taken meanwhile; the bytes are dropped.
        """
        try:
            with os_errors(str(self._path)):
                os.fsync(self.file.fileno())
                # A rename would replace what somebody else has put there.
                os.link(self._partial, self._path)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Drop what has no name yet; safe to call twice."""
        self.file.close()
        self._partial.unlink(missing_ok=True)


def _matches(pattern: str) -> list[str]:
    matches = sorted(glob.glob(pattern))  # noqa: PTH207 (pathlib refuses absolute patterns)
    if not matches:
        raise NotFoundError(f"no file matches {pattern!r}")
    return matches

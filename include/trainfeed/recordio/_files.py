"""Where bytes come from and go to: a path, a descriptor, or an open binary file."""

from __future__ import annotations

import errno
import io
import os
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, Protocol, TypeAlias

from trainfeed.errors import (
    AccessDeniedError,
    ConflictError,
    NotFoundError,
    QuotaExceededError,
    StorageError,
)

__all__ = [
    "FilePath",
    "NewFile",
    "ReadableFile",
    "Source",
    "open_source",
    "os_errors",
    "path_of",
    "write_all",
]

FilePath: TypeAlias = str | os.PathLike[str]
ReadableFile: TypeAlias = FilePath | int | BinaryIO

# Memory that reading a file object takes besides the buffer it fills.
_READ_BYTES: Final = 1 << 20

_ERRORS: Final = {
    errno.ENOENT: NotFoundError,
    errno.EACCES: AccessDeniedError,
    errno.EPERM: AccessDeniedError,
    errno.EEXIST: ConflictError,
    errno.ENOSPC: QuotaExceededError,
    errno.EDQUOT: QuotaExceededError,
}


class Source(Protocol):
    """Bytes that can be read at any position.

    Attributes:
        path: What to call it in messages, None when unknown.
    """

    path: str | None

    def num_bytes(self) -> int:
        """Return its size now."""

    def read_into(self, offset_bytes: int, out: memoryview) -> int:
        """Fill ``out`` from ``offset_bytes`` on; return less than its length at the end only."""


@contextmanager
def open_source(file: ReadableFile) -> Iterator[Source]:
    """Make a source of a path, a descriptor, or a seekable binary file.

    A path is opened here and closed at the end; anything else stays open. A descriptor's position
    is not used and not moved, so threads may share it; that of a binary file is.

    Raises:
        NotFoundError: No file is at the path.
        StorageError: It cannot be opened.
    """
    if isinstance(file, int):
        yield _Descriptor(file)
    elif isinstance(file, str | os.PathLike):
        path = os.fspath(file)
        with os_errors(path):
            # A FIFO without writer would block here for ever.
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            yield _Descriptor(fd, path)
        finally:
            os.close(fd)
    else:
        yield _Stream(file)


def path_of(file: ReadableFile) -> str | None:
    """Return what to call a file in messages, None when it has no name."""
    if isinstance(file, int):
        try:
            return str(Path(f"/proc/self/fd/{file}").readlink())
        except OSError:
            return None
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


def write_all(file: BinaryIO, data: bytes | memoryview) -> None:
    """Write all of ``data``, also to a raw file, which may take less at once."""
    rest = memoryview(data)
    path = path_of(file)
    with os_errors(path):
        while rest:
            num_bytes = file.write(rest)
            if not num_bytes:
                raise StorageError(f"{path or 'an unnamed file'} takes no more bytes")
            rest = rest[num_bytes:]


class _Descriptor:
    def __init__(self, fd: int, path: str | None = None) -> None:
        self.path = path_of(fd) if path is None else path
        self._fd = fd

    def num_bytes(self) -> int:
        with os_errors(self.path):
            status = os.fstat(self._fd)
        # A device or FIFO says 0 bytes, and would pass for a file without records.
        if not stat.S_ISREG(status.st_mode):
            kind = stat.filemode(status.st_mode)
            raise StorageError(f"expected a regular file, got one of mode {kind} at {self.path}")
        return status.st_size

    def read_into(self, offset_bytes: int, out: memoryview) -> int:
        num_bytes = 0
        with os_errors(self.path):
            while num_bytes < len(out):
                got = os.preadv(self._fd, [out[num_bytes:]], offset_bytes + num_bytes)
                if not got:
                    break
                num_bytes += got
        return num_bytes


class _Stream:
    def __init__(self, file: BinaryIO) -> None:
        self.path = path_of(file)
        self._file = file

    def num_bytes(self) -> int:
        with os_errors(self.path):
            return self._file.seek(0, io.SEEK_END)

    def read_into(self, offset_bytes: int, out: memoryview) -> int:
        num_bytes = 0
        with os_errors(self.path):
            self._file.seek(offset_bytes)
            # A file of a network file system may return less than was asked for.
            while num_bytes < len(out):
                data = self._file.read(min(len(out) - num_bytes, _READ_BYTES))
                if not data:
                    break
                out[num_bytes : num_bytes + len(data)] = data
                num_bytes += len(data)
        return num_bytes


class NewFile:
    """A file that gets its name when it is complete, and only if nobody has the name.

    Attributes:
        file: Where to write, until ``commit`` or ``abandon``.
    """

    def __init__(self, path: FilePath) -> None:
        self._path = Path(path)
        self._partial = self._path.with_name(f"{self._path.name}.{uuid.uuid4().hex}.tmp")
        self._refuse_existing()
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
                # Not a rename: that would replace what somebody else has put there.
                os.link(self._partial, self._path)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Drop what has no name yet; safe to call twice."""
        self.file.close()
        self._partial.unlink(missing_ok=True)

    def _refuse_existing(self) -> None:
        if self._path.exists():
            raise ConflictError(f"{self._path} exists; choose another name, or delete it first")

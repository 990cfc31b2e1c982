"""Bytes that go into new files, their digest, and what makes files and their names last."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol, cast

from trainfeed.errors import StorageError
from trainfeed.paths._errors import os_errors
from trainfeed.paths._file_names import FILE_MODE, FilePath, path_of

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from typing_extensions import Buffer

__all__ = [
    "DigestedFile",
    "TargetFile",
    "durable_file",
    "sync_folder",
    "write_all",
]

_BUFFER_BYTES: Final = 1 << 20


class TargetFile(io.FileIO):
    """A new file, unbuffered, whose errors say what the system refused and where.

    Args:
        path: The file; nothing may have the name, a link neither.
        place: What errors call it; None for ``path``.
        mode: Of the file; the umask takes away from it.

    Raises:
        ConflictError: The name is taken.
        StorageError: It cannot be made.
    """

    def __init__(
        self, path: FilePath, *, place: FilePath | None = None, mode: int = FILE_MODE
    ) -> None:
        self.place = path if place is None else place

        def opened(name: str, flags: int) -> int:
            return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode)

        with os_errors(self.place):
            super().__init__(os.fspath(path), "xb", opener=opened)

    def write(self, data: ReadableBuffer, /) -> int:
        """Write what the system takes, and return how many bytes that is.

        Raises:
            QuotaExceededError: The disk is full.
            StorageError: The system refused otherwise.
        """
        try:
            return super().write(data)
        except OSError:
            with os_errors(self.place):
                raise


@contextmanager
def durable_file(path: FilePath) -> Iterator[BinaryIO]:
    """Write a new file in a folder that gets its name later; its bytes are durable at the end.

    Raises:
        ConflictError: The name is taken.
        StorageError: The system refused.
    """
    with TargetFile(path) as raw:
        buffer = io.BufferedWriter(raw, _BUFFER_BYTES)
        try:
            yield cast("BinaryIO", buffer)
            buffer.flush()
            with os_errors(path):
                os.fsync(raw.fileno())
        finally:
            # After an error of the file the buffer would fail again, and hide why.
            raw.close()


def sync_folder(path: FilePath) -> None:
    """Return when the names in a folder are on disk, renames into and out of it included.

    Raises:
        StorageError: Nobody knows whether they are.
    """
    with os_errors(path):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_all(file: BinaryIO, data: bytes | memoryview) -> None:
    """Write all of ``data``, also to a raw file, which may take less at once.

    Raises:
        QuotaExceededError: The disk is full.
        StorageError: The file refused the bytes.
    """
    rest = memoryview(data)
    path = path_of(file)
    with os_errors(path):
        while rest:
            num_bytes = file.write(rest)
            if not num_bytes:
                raise StorageError(f"{path or 'an unnamed file'} takes no more bytes")
            rest = rest[num_bytes:]


class Digest(Protocol):
    """What ``hashlib`` and ``xxhash`` make."""

    def update(self, data: memoryview, /) -> None:
        """Take further bytes."""
        ...

    def hexdigest(self) -> str:
        """Return the digest of all bytes so far, in hex."""
        ...


class DigestedFile(io.RawIOBase):
    """A binary file, for writing only, that counts and digests what the file below it takes.

    Args:
        file: The file below it; raw or buffered, its owner closes it.
        digest: A new one.

    Attributes:
        num_bytes: Bytes written so far.
    """

    def __init__(self, file: BinaryIO, digest: Digest) -> None:
        super().__init__()
        self.num_bytes = 0
        self._file = file
        self._digest = digest

    @property
    def hexdigest(self) -> str:
        """Digest of what was written so far, in hex."""
        return self._digest.hexdigest()

    def writable(self) -> bool:
        """Whether ``write`` works: always."""
        return True

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self.num_bytes

    def write(self, data: Buffer, /) -> int:
        """Append what the file takes of ``data``; return how many bytes that is."""
        view = memoryview(data).cast("B")
        num_bytes = self._file.write(view)
        self._digest.update(view[:num_bytes])
        self.num_bytes += num_bytes
        return num_bytes

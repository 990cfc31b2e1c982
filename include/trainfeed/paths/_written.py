"""Writes bytes to new files, digests them, and syncs files and folders."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol, cast

from trainfeed.datacenters import local_source, local_target
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
    "takes_no_more",
    "write_all",
]

_BUFFER_BYTES: Final = 1 << 20


class TargetFile(io.FileIO):
    """A new unbuffered file whose errors are ``StorageError`` and name its place.

    Args:
        path: The file; the name must be free, also of symbolic links.
        place: Path for errors; None for ``path``.
        mode: Mode of the file, before the umask.

    Raises:
        ConflictError: The name is taken.
        StorageError: The file cannot be made.
    """

    def __init__(
        self, path: FilePath, *, place: FilePath | None = None, mode: int = FILE_MODE
    ) -> None:
        path = local_target(path)
        self.place = path if place is None else place

        def opened(name: str, flags: int) -> int:
            return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode)

        with os_errors(self.place):
            super().__init__(os.fspath(path), "xb", opener=opened)

    def write(self, data: ReadableBuffer, /) -> int:
        """Write as many bytes as the system accepts, and return their number.

        Raises:
            QuotaExceededError: The disk is full.
            StorageError: The system refused for another reason.
        """
        try:
            # The context manager is entered only after an error: this runs once per write.
            return super().write(data)
        except OSError:
            with os_errors(self.place):
                raise


@contextmanager
def durable_file(path: FilePath) -> Iterator[BinaryIO]:
    """Write a new file into a folder that is named later; sync its bytes at the end.

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
            # Closing the buffer would flush it, fail again, and hide the first error.
            raw.close()


def sync_folder(path: FilePath) -> None:
    """Make the names in a folder durable, including renames into and out of it.

    Raises:
        StorageError: The folder could not be synced.
    """
    with os_errors(path):
        descriptor = os.open(local_source(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # fsync of a file does not cover its name, which is an entry of the folder.
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def takes_no_more(path: FilePath | None) -> StorageError:
    """Return the error of a file that accepts no bytes, which would be asked again without end."""
    return StorageError(f"{path or 'an unnamed file'} takes no more bytes")


def write_all(file: BinaryIO, data: bytes | memoryview) -> None:
    """Write all of ``data``, also to a raw file, which may accept fewer bytes per call.

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
                raise takes_no_more(path)
            rest = rest[num_bytes:]


class Digest(Protocol):
    """A digest object of ``hashlib`` or ``xxhash``."""

    def update(self, data: memoryview, /) -> None:
        """Add further bytes."""
        ...

    def hexdigest(self) -> str:
        """Return the digest of all bytes so far, in hex."""
        ...


class DigestedFile(io.RawIOBase):
    """A write-only binary file that counts and digests the bytes the underlying file accepts.

    Args:
        file: The underlying file, raw or buffered; its owner closes it.
        digest: A new digest object.

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
        """Digest of the bytes written so far, in hex."""
        return self._digest.hexdigest()

    def writable(self) -> bool:
        """Whether ``write`` works: always."""
        return True

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self.num_bytes

    def write(self, data: Buffer, /) -> int:
        """Append ``data`` as far as the file accepts it; return the number of bytes accepted."""
        view = memoryview(data).cast("B")
        num_bytes = self._file.write(view)
        # A raw file may accept fewer bytes than given; the caller writes the rest again.
        self._digest.update(view[:num_bytes])
        self.num_bytes += num_bytes
        return num_bytes

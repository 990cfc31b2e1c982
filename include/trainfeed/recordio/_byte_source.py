"""Sources of bytes: a path, a descriptor, an open binary file, or a mapped file."""

from __future__ import annotations

import io
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import BinaryIO, Final, Protocol, Self, TypeAlias

from trainfeed.paths import FilePath, os_errors, path_of, plain_fd, plain_size

__all__ = ["ByteSource", "MappedFile", "ReadableFile", "open_source"]

# Reads of a file object return new bytes; this limits their size.
_READ_BYTES: Final = 1 << 20


class ByteSource(Protocol):
    """Bytes that can be read at any position.

    Attributes:
        path: Name for messages; None when unknown.
    """

    path: str | None

    def num_bytes(self) -> int:
        """Return the present size in bytes."""

    def read_into(self, offset_bytes: int, out: memoryview) -> int:
        """Fill ``out`` from ``offset_bytes`` on; return the bytes read, fewer only at the end."""

    def view(self, offset_bytes: int, num_bytes: int) -> memoryview | None:
        """Return bytes without a copy, fewer only at the end; None where that is not possible."""


@contextmanager
def open_source(file: ReadableFile) -> Iterator[ByteSource]:
    """Make a source of a path, a descriptor, a seekable binary file, or a mapped file.

    A path is opened here and closed at the end; anything else stays open. Reads do not use or move
    the position of a descriptor, so threads may share it. They do move that of a binary file.

    Raises:
        NotFoundError: No file is at the path.
        FormatError: The path is not a plain file.
        StorageError: The file cannot be opened.
    """
    if isinstance(file, MappedFile):
        yield file
    elif isinstance(file, int):
        yield _Descriptor(file)
    elif isinstance(file, str | os.PathLike):
        path = os.fspath(file)
        with _opened(path) as fd:
            yield _Descriptor(fd, path)
    else:
        yield _Stream(file)


@contextmanager
def _opened(path: str) -> Iterator[int]:
    with os_errors(path):
        fd = plain_fd(path, follow=True)
    try:
        yield fd
    finally:
        os.close(fd)


class _Descriptor:
    def __init__(self, fd: int, path: str | None = None) -> None:
        self.path = path_of(fd) if path is None else path
        self._fd = fd

    def num_bytes(self) -> int:
        with os_errors(self.path):
            return plain_size(self._fd, self.path)

    def read_into(self, offset_bytes: int, out: memoryview) -> int:
        num_bytes = 0
        with os_errors(self.path):
            while num_bytes < len(out):
                got = os.preadv(self._fd, [out[num_bytes:]], offset_bytes + num_bytes)
                if not got:
                    break
                num_bytes += got
        return num_bytes

    def view(self, _offset_bytes: int, _num_bytes: int) -> None:
        return None


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
            # One read of a file on a network may return less than was requested.
            while num_bytes < len(out):
                data = self._file.read(min(len(out) - num_bytes, _READ_BYTES))
                if not data:
                    break
                out[num_bytes : num_bytes + len(data)] = data
                num_bytes += len(data)
        return num_bytes

    def view(self, _offset_bytes: int, _num_bytes: int) -> None:
        return None


class MappedFile:
    """A file mapped into memory: views of it are no copies, and stay valid.

    Use it for files on a local disk that do not change. If a mapped file is truncated, or its disk
    fails, the kernel kills the process that reads the lost bytes (SIGBUS); over a network every
    page is a request of its own. Descriptors and paths have neither drawback.

    The map takes no memory besides the page cache. Threads may share it. The file is unmapped when
    the object is closed and its last view is gone.

    Args:
        path: The file.

    Attributes:
        path: As above.
        name: As above; the attribute that file objects have.

    Raises:
        NotFoundError: No file is at the path.
        FormatError: The path is not a plain file.
        StorageError: The file cannot be opened.
    """

    def __init__(self, path: FilePath) -> None:
        self.path: str | None = os.fspath(path)
        self.name = self.path
        # An empty file cannot be mapped.
        self._data: memoryview | None = memoryview(b"")
        with _opened(self.path) as fd:
            if num_bytes := _Descriptor(fd, self.path).num_bytes():
                with os_errors(self.path):
                    self._data = memoryview(mmap.mmap(fd, num_bytes, prot=mmap.PROT_READ))

    def num_bytes(self) -> int:
        """Return the size of the file when it was mapped, in bytes."""
        return len(self._mapped())

    def read_into(self, offset_bytes: int, out: memoryview) -> int:
        """Fill ``out`` from ``offset_bytes`` on; return the bytes read, fewer only at the end."""
        data = self.view(offset_bytes, len(out))
        out[: len(data)] = data
        return len(data)

    def view(self, offset_bytes: int, num_bytes: int) -> memoryview:
        """Return bytes without a copy, fewer only at the end; the view stays valid."""
        return self._mapped()[offset_bytes : offset_bytes + num_bytes]

    def close(self) -> None:
        """Release the file; safe to call twice. Views stay valid."""
        self._data = None

    def _mapped(self) -> memoryview:
        if self._data is None:
            raise ValueError("the file is closed")
        return self._data

    def __enter__(self) -> Self:
        """Return the file itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release the file."""
        self.close()


ReadableFile: TypeAlias = FilePath | int | BinaryIO | MappedFile

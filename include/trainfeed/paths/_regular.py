"""Opening files that somebody else made: nothing else in their place is waited for or believed."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from trainfeed.errors import FormatError
from trainfeed.paths._errors import os_errors
from trainfeed.paths._file_names import FilePath

__all__ = ["open_regular", "read_regular"]


@contextmanager
def open_regular(path: FilePath, *, buffering: int = -1) -> Iterator[BinaryIO]:
    """Open a file for reading and close it at the end; links are followed.

    Args:
        path: Where it is.
        buffering: As for ``open``.

    Raises:
        NotFoundError: Nothing has the name.
        FormatError: A folder, a pipe, a socket or a device has it.
        StorageError: It cannot be opened.
    """
    name = os.fspath(path)
    with os_errors(name):
        try:
            # Without O_NONBLOCK, opening a pipe would wait for somebody to write to it.
            fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            if error.errno == errno.ENXIO:
                raise _not_regular(name) from error
            raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise _not_regular(name)
    with os.fdopen(fd, "rb", buffering) as file:
        yield file


def read_regular(path: FilePath, *, max_bytes: int) -> bytes:
    """Return what a file of at most ``max_bytes`` holds; raises as ``open_regular`` does.

    The size is looked at before a byte is read, and a file that grows meanwhile is not followed:
    a file of any size costs ``max_bytes`` of memory at most.

    Raises:
        FormatError: The file is larger.
    """
    with open_regular(path) as file, os_errors(os.fspath(path)):
        num_bytes = os.fstat(file.fileno()).st_size
        data = file.read(max_bytes + 1) if num_bytes <= max_bytes else b""
    if len(data) > max_bytes or num_bytes > max_bytes:
        raise FormatError(
            f"expected at most {max_bytes} bytes, got {max(num_bytes, len(data))}; nothing was"
            " read; replace the file, or remove it",
            path=os.fspath(path),
        )
    return data


def _not_regular(path: str) -> FormatError:
    return FormatError("expected a regular file, got a folder, a pipe or a device", path=path)

"""Where records come from: paths, or open binary files."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from trainfeed.errors import FormatError
from trainfeed.paths import FilePath, os_errors

__all__ = ["open_file"]


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

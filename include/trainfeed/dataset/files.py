"""Opens files of a version so that nothing else in their place can hang or mislead a reader."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final

from trainfeed.errors import FormatError
from trainfeed.paths import FilePath
from trainfeed.storage.posix import map_errors

__all__ = ["open_plain_file", "read_plain_file"]

# A link is not followed, and a FIFO is not waited for.
_PLAIN: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# What the kernel says when a link, a folder or a socket is opened like that.
_NOT_PLAIN: Final = frozenset({errno.ELOOP, errno.EISDIR, errno.ENXIO})


@contextmanager
def open_plain_file(path: FilePath) -> Iterator[BinaryIO]:
    """Open a file for reading; an ``OSError`` of the block is raised as what it means for ``path``.

    Raises:
        NotFoundError: Nothing has the name.
        FormatError: Something else than a plain file has it.
        StorageError: The file system refused or failed.
    """
    with map_errors(path), _open(path) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise _not_plain(path)
        yield file


def read_plain_file(path: FilePath, *, max_bytes: int) -> bytes:
    """Return what a file of at most ``max_bytes`` holds; raises as ``open_plain_file`` does.

    The size is looked at before a byte is read, and a file that grows meanwhile is not followed:
    a file of any size costs ``max_bytes`` of memory at most.

    Raises:
        FormatError: The file is larger.
    """
    with open_plain_file(path) as file:
        num_bytes = os.fstat(file.fileno()).st_size
        data = file.read(max_bytes + 1) if num_bytes <= max_bytes else b""
    if len(data) > max_bytes or num_bytes > max_bytes:
        raise FormatError(
            f"expected at most {max_bytes} bytes, got {max(num_bytes, len(data))}; nothing was"
            " read; restore the file from a backup, or remove it",
            path=str(path),
        )
    return data


def _open(path: FilePath) -> BinaryIO:
    try:
        return open(path, "rb", opener=lambda name, flags: os.open(name, flags | _PLAIN))
    except OSError as error:
        if error.errno in _NOT_PLAIN:
            raise _not_plain(path) from error
        raise


def _not_plain(path: FilePath) -> FormatError:
    return FormatError("expected a plain file, got something else", path=str(path))

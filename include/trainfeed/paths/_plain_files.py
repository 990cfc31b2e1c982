"""Opens files of other programs, and refuses everything that is not a plain file.

Opening a pipe waits for a writer, a device may never end, and a link may lead to another file than
the intended one.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from trainfeed.datacenters import local_source, local_target
from trainfeed.errors import FormatError
from trainfeed.paths._errors import os_errors
from trainfeed.paths._file_names import FilePath

__all__ = ["open_plain", "plain_fd", "plain_size", "read_plain"]

# O_NONBLOCK: opening a pipe returns at once; it has no effect on plain files.
_AT_ONCE: Final = os.O_NONBLOCK | os.O_CLOEXEC
# Errnos of opening a socket (ENXIO), and a folder for writing (EISDIR).
_NOT_PLAIN: Final = frozenset({errno.ENXIO, errno.EISDIR})
_KINDS: Final = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def plain_fd(path: FilePath, *, follow: bool, write: bool = False, above: int | None = None) -> int:
    """Open an existing plain file without waiting; the caller closes the descriptor.

    Args:
        path: Path of the file.
        follow: Whether a symbolic link at ``path`` is followed; links in the folders above are
            always followed.
        write: Whether to open for reading and writing, not only for reading.
        above: Descriptor of the folder with the file; only the last name of ``path`` is opened
            there, and the folders in ``path`` are for messages. None for the path itself.

    Raises:
        FormatError: The name is that of a folder, a pipe, a socket, a device, or a link that is
            not followed.
        OSError: The system refused; not translated, for callers that retry.
    """
    path = local_target(path) if write else local_source(path)
    flags = (os.O_RDWR if write else os.O_RDONLY) | _AT_ONCE
    name = path if above is None else Path(path).name
    try:
        fd = os.open(name, flags if follow else flags | os.O_NOFOLLOW, dir_fd=above)
    except OSError as error:
        if error.errno in _NOT_PLAIN or (error.errno == errno.ELOOP and not follow):
            raise _not_plain(path, _mode_at(name, follow, above)) from error
        raise
    try:
        # Checked on the descriptor, so the file cannot be exchanged between check and use.
        plain_size(fd, path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def plain_size(fd: int, path: FilePath | None) -> int:
    """Return the size in bytes of an open file, which must be a plain one.

    Devices and pipes report 0 bytes, and would pass for empty files.

    Args:
        fd: Descriptor of the file.
        path: Path for messages, None when the file has no name.

    Raises:
        FormatError: The file is not a plain one.
        OSError: The system refused.
    """
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        raise _not_plain(path, found.st_mode)
    return found.st_size


@contextmanager
def open_plain(
    path: FilePath, *, follow: bool, buffering: int = -1, above: int | None = None
) -> Iterator[BinaryIO]:
    """Open a file for reading, and close it at the end.

    An ``OSError`` of the block is raised as the ``StorageError`` of its errno, naming ``path``.

    Args:
        path: Path of the file.
        follow: As for ``plain_fd``.
        buffering: As for ``open``.
        above: As for ``plain_fd``.

    Raises:
        NotFoundError: Nothing has the name.
        FormatError: The name is not that of a plain file.
        StorageError: The file system refused or failed.
    """
    path = local_source(path)

    def opened(_: str, __: int) -> int:
        return plain_fd(path, follow=follow, above=above)

    with os_errors(path), open(path, "rb", buffering, opener=opened) as file:
        yield file


def read_plain(path: FilePath, *, follow: bool, max_bytes: int) -> bytes:
    """Return the content of a file of at most ``max_bytes``; raises as ``open_plain`` does.

    The size is checked before a byte is read, and a file that grows meanwhile is read up to
    ``max_bytes``. So a file of any size needs at most this much memory, and a small file little.

    Raises:
        FormatError: The file is larger.
    """
    with open_plain(path, follow=follow) as file:
        num_bytes = os.fstat(file.fileno()).st_size
        # The buffer is sized by the file and not by max_bytes. One more byte detects growth.
        data = file.read(num_bytes + 1) if num_bytes <= max_bytes else b""
        if len(data) > num_bytes:
            data += file.read(max_bytes + 1 - len(data))
    if len(data) > max_bytes or num_bytes > max_bytes:
        raise FormatError(
            f"expected at most {max_bytes} bytes, got {max(num_bytes, len(data))}; nothing was"
            " read; restore or replace the file, or remove it",
            path=os.fspath(path),
        )
    return data


def _mode_at(name: FilePath, follow: bool, above: int | None) -> int:
    try:
        return os.stat(name, dir_fd=above, follow_symlinks=follow).st_mode
    except OSError:  # removed meanwhile, or a link without a target
        return 0


def _not_plain(path: FilePath | None, mode: int) -> FormatError:
    kind = _KINDS.get(stat.S_IFMT(mode), "something else")
    name = None if path is None else os.fspath(path)
    return FormatError(f"expected a plain file, got {kind}", path=name)

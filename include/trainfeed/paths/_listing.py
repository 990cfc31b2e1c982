"""What a folder holds, or an error: nothing that may not be listed counts as empty.

``glob`` passes over every folder that refuses, and those of ``pathlib`` over such as this account
may not list. So a file that nobody saw would be taken for one that is not there.
"""

from __future__ import annotations

import errno
import glob
import os
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from stat import S_ISDIR
from typing import Final

from trainfeed.paths._errors import os_errors
from trainfeed.paths._file_names import FilePath

__all__ = ["is_there", "listed", "matching", "walk"]

_CACHE: Final = "__pycache__"
# No file or folder has such a name.
_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP})


def is_there(path: FilePath) -> bool:
    """Return whether a file, a folder or a link has that name.

    Raises:
        StorageError: The file system does not say.
    """
    return _status(path) is not None


def listed(folder: FilePath, mask: str = "*") -> list[Path]:
    """Return what lies in a folder, by name; nothing when there is no such folder.

    Args:
        folder: Where.
        mask: What the names match, with ``*``, ``?`` and ``[…]``; hidden ones as others.

    Raises:
        StorageError: The folder cannot be listed.
    """
    return [Path(folder, name) for name in sorted(_names(folder)) if fnmatchcase(name, mask)]


def walk(folder: FilePath, *, hidden: bool = True) -> Iterator[Path]:
    """Yield all files and folders below a folder; links are not followed.

    Args:
        folder: Where.
        hidden: Whether names that begin with a dot, and ``__pycache__``, count, and what lies below
            them.

    Raises:
        StorageError: A folder cannot be listed.
    """
    for path in listed(folder):
        if not hidden and (path.name.startswith(".") or path.name == _CACHE):
            continue
        yield path
        status = _status(path)
        if status is not None and S_ISDIR(status.st_mode):
            yield from walk(path, hidden=hidden)


def matching(pattern: str) -> list[str]:
    """Return the paths that ``glob.glob`` finds, sorted.

    Raises:
        StorageError: A folder that may hold one cannot be listed.
    """
    return sorted(_matching(pattern))


def _matching(pattern: str) -> Iterator[str]:
    if not glob.has_magic(pattern):
        if is_there(pattern):
            yield pattern
        return
    head, tail = os.path.split(pattern)
    folders = _matching(head) if head != pattern and glob.has_magic(head) else [head]
    for folder in folders:
        if glob.has_magic(tail):
            yield from (os.path.join(folder, name) for name in _shown(folder, tail))  # noqa: PTH118
        elif is_there(path := os.path.join(folder, tail)):  # noqa: PTH118 (it keeps a final slash)
            yield path


def _shown(folder: str, mask: str) -> list[str]:
    names = [name for name in _names(folder or os.curdir) if fnmatchcase(name, mask)]
    return [name for name in names if mask.startswith(".") or not name.startswith(".")]


def _names(folder: FilePath) -> list[str]:
    with os_errors(folder):
        try:
            return [path.name for path in Path(folder).iterdir()]
        except OSError as error:
            if error.errno in _ABSENT:
                return []
            raise


def _status(path: FilePath) -> os.stat_result | None:
    with os_errors(path):
        try:
            return os.lstat(path)
        except ValueError:
            return None  # a null byte
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise

"""Lists folders; a folder that cannot be listed is an error, not an empty folder.

``glob.glob`` skips every folder whose listing fails, and ``Path.glob`` skips folders without
permission. With them an unreadable file would be taken for a missing one.
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

from trainfeed.datacenters import local_matches, local_source
from trainfeed.errors import FormatError
from trainfeed.paths._errors import os_errors
from trainfeed.paths._file_names import FilePath

__all__ = ["is_there", "listed", "listed_folder", "matching", "walk"]

_CACHE: Final = "__pycache__"
# These errnos say for certain that no file or folder has the name.
_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP})


def is_there(path: FilePath) -> bool:
    """Return whether a file, a folder or a link has this name.

    Raises:
        StorageError: The file system failed or refused the question.
    """
    return _status(local_source(path)) is not None


def listed(folder: FilePath, mask: str = "*") -> list[Path]:
    """Return the paths in a folder, sorted by name; an empty list for a missing folder.

    Args:
        folder: The folder.
        mask: Pattern of the names, with ``*``, ``?`` and ``[…]``; hidden names are matched too.

    Raises:
        StorageError: The folder cannot be listed.
    """
    folder = local_source(folder)
    return [Path(folder, name) for name in sorted(_names(folder)) if fnmatchcase(name, mask)]


def listed_folder(folder: FilePath, mask: str = "*") -> list[Path]:
    """Return what ``listed`` does, but refuse a file or a broken link in the place of the folder.

    For places whose loss must not pass for an empty folder: what was there is not known.

    Raises:
        FormatError: Something else than a folder has the name.
        StorageError: The folder cannot be listed.
    """
    found = listed(folder, mask)
    if not found and _status(path := local_source(folder)) is not None and not _is_folder(path):
        raise FormatError(
            "expected a folder, got something else, so what it held is not known; nothing was read"
            " or changed; bring the folder back from a backup, or move this file away if there was"
            " none",
            path=os.fspath(path),
        )
    return found


def walk(folder: FilePath, *, hidden: bool = True) -> Iterator[Path]:
    """Yield all files and folders below a folder; links are not followed.

    Args:
        folder: The folder.
        hidden: Whether names that begin with a dot, ``__pycache__``, and everything below them are
            included.

    Raises:
        StorageError: A folder cannot be listed.
    """
    for path in listed(folder):
        # Not yielded and not entered, so everything below is left out as well.
        if not hidden and (path.name.startswith(".") or path.name == _CACHE):
            continue
        yield path
        status = _status(path)
        if status is not None and S_ISDIR(status.st_mode):
            yield from walk(path, hidden=hidden)


def matching(pattern: str) -> list[str]:
    """Return the paths that ``glob.glob`` finds, sorted.

    Raises:
        StorageError: A folder that may hold a match cannot be listed.
    """
    return sorted(local_matches(pattern, lambda each: list(_matching(each))))


def _matching(pattern: str) -> Iterator[str]:
    if not glob.has_magic(pattern):
        if is_there(pattern):
            yield pattern
        return
    head, tail = os.path.split(pattern)
    # Folders are expanded first, then the last part of the pattern in each of them.
    folders = _matching(head) if head != pattern and glob.has_magic(head) else [head]
    for folder in folders:
        if glob.has_magic(tail):
            yield from (os.path.join(folder, name) for name in _shown(folder, tail))  # noqa: PTH118
        elif is_there(path := os.path.join(folder, tail)):  # noqa: PTH118 (os.path.join keeps a final slash)
            yield path


def _shown(folder: str, mask: str) -> list[str]:
    # As in glob.glob: a pattern matches hidden names only if it begins with a dot.
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
            return None  # the path contains a null byte
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise


def _is_folder(path: FilePath) -> bool:
    with os_errors(path):
        return Path(path).is_dir()

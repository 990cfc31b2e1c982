"""Finds and opens the files that people have put into the folder of uploads.

People can exchange a folder there for a link at any time. So every folder is listed, and every file
opened, from the descriptor of the folder above, and no link is followed.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from trainfeed.dataset.layout import DatasetFolder
from trainfeed.errors import FormatError, NotFoundError, WindowError
from trainfeed.intervals import Schedule
from trainfeed.paths import open_plain, os_errors
from trainfeed.uploads._label_rows import KINDS
from trainfeed.uploads._receipt import Seen

__all__ = [
    "UploadFile",
    "found_uploads",
    "open_upload",
    "opened_folder",
    "require_upload",
    "seen_of",
]

_UNFINISHED_STARTS: Final = (".", "_")
_UNFINISHED_ENDS: Final = (".tmp", "~")
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Errnos of opening a link or a file as a folder.
_NO_FOLDER: Final = frozenset({errno.ENOTDIR, errno.ELOOP})


@dataclass(frozen=True)
class UploadFile:
    """A file in the folder of uploads.

    Attributes:
        path: Path of the file.
        name: ``<interval>/<file>`` below the folder; bytes that are no UTF-8 are escaped.
    """

    path: Path
    name: str

    @property
    def interval(self) -> str:
        """Name of the folder that the file is in; empty for a file beside these folders."""
        head, _, _ = self.name.rpartition("/")
        return head

    @property
    def kind(self) -> str | None:
        """Format of the file by its suffix; None for another suffix."""
        return KINDS.get(self.path.suffix)


def found_uploads(folder: DatasetFolder, intervals: Collection[str] | None) -> Iterator[UploadFile]:
    """Yield the finished files of uploads, and whatever else stands in their place.

    Args:
        folder: The data set.
        intervals: Names of the intervals to look at; None for all, and files outside of them.

    Yields:
        Files in order of the UTF-8 bytes of their names. Unfinished files are left out.

    Raises:
        FormatError: The folder of uploads is a link or a file.
        StorageError: A folder cannot be listed.
    """
    found = [
        path
        for name in _names(folder.uploads, folder.uploads)
        if intervals is None or name in intervals
        for path in _files(folder.uploads, folder.uploads / name)
    ]
    files = (UploadFile(path, _name(path.relative_to(folder.uploads))) for path in found)
    yield from sorted(files, key=lambda file: file.name.encode())


@contextmanager
def open_upload(folder: DatasetFolder, path: Path) -> Iterator[BinaryIO]:
    """Open a file of uploads for reading, and close it at the end; no link is followed.

    Args:
        folder: The data set.
        path: Path of a file in the folder of uploads, or in a folder in it.

    Raises:
        NotFoundError: Nothing has the name.
        FormatError: The file is no plain one, or a folder is a link or a file.
        StorageError: The file system refused or failed.
    """
    with (
        _opened(folder.uploads, path.parent) as above,
        open_plain(path, follow=False, above=above) as stream,
    ):
        yield stream


def opened_folder(folder: DatasetFolder, place: Path) -> AbstractContextManager[int]:
    """Open the folder of uploads, or a folder in it, and yield its descriptor; no link is followed.

    Raises:
        NotFoundError: There is none.
        FormatError: It is a link or a file.
        StorageError: The file system refused or failed.
    """
    return _opened(folder.uploads, place)


def require_upload(file: UploadFile, schedule: Schedule) -> str:
    """Return the kind of a file that may be an upload.

    Raises:
        FormatError: The file lies in no folder of an interval, has another suffix, or a name with
            characters that are not printable.
    """
    if not file.name.isprintable() or "\\x" in file.name:
        raise FormatError(
            "expected a name of printable characters in UTF-8; rename the file", path=file.name
        )
    try:
        schedule.interval_named(file.interval)
    except WindowError as error:
        raise FormatError(
            f"expected the file in a folder with the name of its interval: {error}; move the file"
        ) from error
    if file.kind is None:
        raise FormatError(f"expected a name with one of {', '.join(KINDS)}; rename the file")
    return file.kind


def seen_of(fd: int) -> Seen:
    """Return the state of an open file."""
    found = os.fstat(fd)
    return Seen(found.st_size, found.st_mtime_ns, found.st_ino)


def _is_unfinished(name: str) -> bool:
    return name.startswith(_UNFINISHED_STARTS) or name.endswith(_UNFINISHED_ENDS)


def _files(uploads: Path, path: Path) -> list[Path]:
    try:
        return [path / name for name in _names(uploads, path)]
    except FormatError:
        return [path]  # a file or a link; the check refuses it


def _names(uploads: Path, folder: Path) -> list[str]:
    """Return the finished names in a folder; none for a missing folder."""
    try:
        with _opened(uploads, folder) as fd, os_errors(folder):
            names = os.listdir(fd)  # noqa: PTH208 (a path has no listing by descriptor)
    except NotFoundError:
        return []
    return [name for name in names if not _is_unfinished(name)]


@contextmanager
def _opened(uploads: Path, folder: Path) -> Iterator[int]:
    """Open the folder of uploads, or a folder in it; yield its descriptor."""
    with ExitStack() as stack:
        fd = _folder_fd(uploads, None)
        stack.callback(os.close, fd)
        if folder != uploads:
            fd = _folder_fd(folder, fd)
            stack.callback(os.close, fd)
        yield fd


def _folder_fd(folder: Path, above: int | None) -> int:
    with os_errors(folder):
        try:
            return os.open(folder if above is None else folder.name, _FOLDER, dir_fd=above)
        except OSError as error:
            if error.errno not in _NO_FOLDER:
                raise
            raise FormatError(
                "expected a folder of uploads, got a link or a file; nothing below was read; put a"
                " folder in its place",
                path=str(folder),
            ) from error


def _name(path: Path) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")

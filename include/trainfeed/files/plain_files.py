"""Plain files: their names and modes, listing and opening them, and errors of the system."""

from __future__ import annotations

import errno
import glob
import os
import re
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from stat import S_ISDIR
from typing import BinaryIO, Final, TypeAlias

from trainfeed.core.datacenters import local_matches, local_source, local_target
from trainfeed.errors import (
    AccessDeniedError,
    ConflictError,
    FormatError,
    NotFoundError,
    QuotaExceededError,
    StorageError,
    UnsuitableStoreError,
)

# --- Names and modes of files: finished files, unfinished files and folders

FilePath: TypeAlias = str | os.PathLike[str]
_UNFINISHED: Final = re.compile(r".+\.[0-9a-f]{32}\.tmp")
_FOLDER_MODE: Final = 0o755
FILE_MODE: Final = 0o644


# How the system ends the name of a descriptor whose file has none any more.
_UNLINKED: Final = " (deleted)"


def path_of(file: object) -> str | None:
    """Return the path of a path, a descriptor or an open file; None for a file without a name."""
    if isinstance(file, int):
        try:
            path = str(Path(f"/proc/self/fd/{file}").readlink())
        except OSError:
            return None
        # Others are pipes and sockets, as pipe:[7], and files that were unlinked.
        return path if path.startswith("/") and not path.endswith(_UNLINKED) else None
    if isinstance(file, str | os.PathLike):
        return os.fspath(file)
    name = getattr(file, "name", None)
    if isinstance(name, int):  # a file that was opened by its descriptor
        return path_of(name)
    return name if isinstance(name, str) else None


def unfinished_name(name: str) -> str:
    """Return a name for the unfinished file of ``name``, different in every attempt."""
    return f"{name}.{uuid.uuid4().hex}.tmp"


def is_unfinished(name: str) -> bool:
    """Return whether this is the name of an unfinished file: one being written, or abandoned."""
    return _UNFINISHED.fullmatch(name) is not None


def make_folders(path: FilePath, mode: int = _FOLDER_MODE) -> None:
    """Make a folder and the missing folders above it; an existing folder keeps its mode.

    Args:
        path: The folder.
        mode: Mode of every new folder, before the umask.

    Raises:
        FileExistsError: A file has the name.
        OSError: A folder cannot be made.
    """
    folder = Path(local_target(path))
    try:
        folder.mkdir(mode, exist_ok=True)
    except FileNotFoundError:
        if folder.parent == folder:
            raise
        # Folders above are missing: made first, from the top down.
        make_folders(folder.parent, mode)
        folder.mkdir(mode, exist_ok=True)


def open_emptied(path: FilePath) -> BinaryIO:
    """Open a file for writing, emptied; a new file is writable by its owner only.

    Args:
        path: The file; an existing file keeps its mode.

    Raises:
        OSError: The file cannot be made or opened.
    """
    path = local_target(path)
    return open(path, "wb", opener=lambda name, flags: os.open(name, flags, FILE_MODE))


# --- Translates errors of the operating system to errors of this package, with one table for all

# Errnos missing here become a plain StorageError: a retry may succeed.
ERRNO_KINDS: Final[dict[int, type[StorageError]]] = {
    errno.ENOENT: NotFoundError,
    errno.ENOTDIR: NotFoundError,
    errno.EACCES: AccessDeniedError,
    errno.EPERM: AccessDeniedError,
    errno.EROFS: AccessDeniedError,
    errno.ELOOP: AccessDeniedError,  # a symbolic link where none is followed
    errno.EEXIST: ConflictError,
    errno.ENOTEMPTY: ConflictError,
    errno.EISDIR: ConflictError,
    errno.ENOSPC: QuotaExceededError,
    errno.EDQUOT: QuotaExceededError,
    errno.EFBIG: QuotaExceededError,
    errno.EXDEV: UnsuitableStoreError,
    errno.EINVAL: UnsuitableStoreError,
    errno.EMLINK: UnsuitableStoreError,
    errno.ENAMETOOLONG: UnsuitableStoreError,
    errno.ENOSYS: UnsuitableStoreError,
    errno.EOPNOTSUPP: UnsuitableStoreError,
}

_REMEDIES: Final[dict[type[StorageError], str]] = {
    AccessDeniedError: "give the account of this process access, or run as another account",
    QuotaExceededError: "free space or raise the quota",
    UnsuitableStoreError: "use another file system or another name",
    StorageError: "retry when the file system answers again",
}


def storage_error(kind: type[StorageError], place: str, reason: str) -> StorageError:
    """Return an error of ``kind`` with place, reason and, if the kind has one, remedy."""
    remedy = _REMEDIES.get(kind)
    return kind(f"{place}: {reason}" + (f"; {remedy}" if remedy else ""))


def kind_of_errno(number: int | None) -> type[StorageError]:
    """Return the error class of an errno; ``StorageError`` itself for errnos without a class."""
    return ERRNO_KINDS.get(number or 0, StorageError)


@contextmanager
def os_errors(path: FilePath | None) -> Iterator[None]:
    """Raise an ``OSError`` of the block as the ``StorageError`` of its errno, naming ``path``.

    Args:
        path: Path of the file, for the message; None when the file has no name.
    """
    try:
        yield
    except OSError as error:
        kind, place = (
            kind_of_errno(error.errno),
            "an unnamed file" if path is None else os.fspath(path),
        )
        reason = (error.strerror or str(error) or type(error).__name__).lower()
        if kind is QuotaExceededError and (free := _free_bytes(place)) is not None:
            reason = f"{reason}, {free} bytes are free there"
        raise storage_error(kind, place, reason) from error


def _free_bytes(place: str) -> int | None:
    """Return the free bytes of the file system of ``place``; None when it cannot be asked."""
    while True:
        try:
            found = os.statvfs(place)
        except OSError:
            # A file that could not be made does not exist, so the nearest folder above it is asked.
            above = os.path.dirname(place)  # noqa: PTH120 - a path of any kind
            if above == place:
                return None
            place = above
        else:
            return found.f_bavail * found.f_frsize


# --- Lists folders; a folder that cannot be listed is an error, not an empty folder

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


# --- Opens files of other programs, and refuses everything that is not a plain file

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
    return _plain(path, follow=follow, write=write, above=above)[0]


def _plain(path: FilePath, *, follow: bool, write: bool, above: int | None) -> tuple[int, int]:
    """Return the descriptor of a plain file of this machine, and its size."""
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
        return fd, plain_size(fd, path)
    except BaseException:
        os.close(fd)
        raise


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
    path = local_source(path)
    with os_errors(path):
        fd, num_bytes = _plain(path, follow=follow, write=False, above=None)
        try:
            # One more byte than the size detects growth.
            data = _read_up_to(fd, num_bytes + 1) if num_bytes <= max_bytes else b""
            if len(data) > num_bytes:
                data += _read_up_to(fd, max_bytes + 1 - len(data))
        finally:
            os.close(fd)
    if len(data) > max_bytes or num_bytes > max_bytes:
        raise FormatError(
            f"expected at most {max_bytes} bytes, got {max(num_bytes, len(data))}; nothing was"
            " read; restore or replace the file, or remove it",
            path=os.fspath(path),
        )
    return data


def _read_up_to(fd: int, most: int) -> bytes:
    """Return bytes up to the end of a file, but no more than ``most``."""
    data = os.read(fd, most)
    while data and len(data) < most and (more := os.read(fd, most - len(data))):
        data += more
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

"""Publication on a mounted POSIX file system: what makes a version visible, whole, and once.

Versions are published by renaming a folder that is finished and synced. These are the steps for
it, in the order of use: ``probe`` at start-up, ``sync_dir`` before the rename,
``rename_directory`` as the commit, ``sync_dir`` again as its confirmation; ``create_exclusive`` for
plans and boundaries, ``replace_file`` under a ``file_lock`` for pointers.

A function raises errors of the ``StorageError`` tree only. No flag of ``renameat2`` is used: some
clients of network file systems take it and ignore it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeAlias

from trainfeed.errors import (
    CommitUnknownError,
    ConflictError,
    NotFoundError,
    StorageError,
    UnsuitableStoreError,
)
from trainfeed.paths import (
    UnfinishedFile,
    kind_of_errno,
    os_errors,
    storage_error,
    sync_folder,
    write_all,
)
from trainfeed.storage._atomic import temporary_path
from trainfeed.storage._probe import probe

__all__ = [
    "StrPath",
    "create_exclusive",
    "file_lock",
    "make_public_dir",
    "map_errors",
    "probe",
    "remove_tree",
    "rename_directory",
    "replace_file",
    "sync_dir",
]

StrPath: TypeAlias = str | os.PathLike[str]

map_errors = os_errors
sync_dir = sync_folder

_LOCK_FILE: Final = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
_PUBLIC_MODE: Final = 0o644
_PUBLIC_FOLDER_MODE: Final = 0o755
# The kernel cannot wait for a lock with a deadline, so we look: soon at first, for those that are
# held for a pointer's update, and twice a second in the end, for those that are held for hours.
_FIRST_LOOK_S: Final = 0.01
_LAST_LOOK_S: Final = 0.5


def make_public_dir(path: StrPath) -> None:
    """Make a folder, and those above it that are missing, that every account can read.

    Whatever the umask is: those who publish and those who read are not the same account. A folder
    that is there keeps its mode.

    Raises:
        ConflictError: The name is a file's.
    """
    path = Path(path)
    with map_errors(path):
        if path.is_dir():
            return
        make_public_dir(path.parent)
        try:
            path.mkdir()
        except FileExistsError:
            if path.is_dir():
                return
            raise
        path.chmod(_PUBLIC_FOLDER_MODE)


def rename_directory(source: StrPath, target: StrPath) -> None:
    """Give a folder a name that nobody has: the commit.

    Of any number of callers, on any number of clients, one succeeds. The kernel refuses a target
    that holds something. It would replace an *empty* folder without a word, so that one is looked
    for first, and nobody may make the target beforehand: a folder made empty between the look and
    the rename is still replaced, which loses nothing but its emptiness.

    The name is durable after ``sync_dir`` of the target's parent.

    Raises:
        ConflictError: The target exists. Nothing was moved.
        NotFoundError: There is no such folder to rename (a link is none), or no parent of the
            target.
        CommitUnknownError: Nobody can tell whether it took place; look, from a new mount if this
            one is broken. Also when the source is gone and the target is there.
        UnsuitableStoreError: Source and target are on different file systems or quota realms.
    """
    source, target = Path(source), Path(target)
    _check_source(source, target)
    if _lexists(target):
        raise ConflictError(f"{target}: the name is taken; {source} was left as it is")
    try:
        source.rename(target)
    except OSError as error:
        raise _rename_error(error, source, target) from error


def create_exclusive(
    path: StrPath, data: bytes, *, mode: int = _PUBLIC_MODE, is_public: bool = False
) -> bool:
    """Make a durable file of this content, unless the name is taken.

    The content is complete and synced before it gets the name, so a kill at any time leaves the
    name free or the file whole. The parent must exist.

    Args:
        path: The file.
        data: Its content.
        mode: Its mode, of which the umask takes away.
        is_public: Whether every account can read it, whatever the umask is.

    Returns:
        True if this call made the file; False if the name was taken, whatever has it. The name is
        durable in both cases.
    """
    with _written(path, data, mode, is_public=is_public) as new:
        return new.claim()


def replace_file(path: StrPath, data: bytes, *, is_public: bool = False) -> None:
    """Give a file this content, durably; a reader gets the old bytes or the new ones.

    Args:
        path: The file.
        data: Its content.
        is_public: Whether every account can read it, whatever the umask is.

    Raises:
        ConflictError: The name is a folder's.
    """
    with _written(path, data, _PUBLIC_MODE, is_public=is_public) as new:
        new.replace()


def remove_tree(path: StrPath) -> None:
    """Delete a folder with all that it holds, or a file; fine if it is not there.

    Symbolic links are deleted, never followed, also when they are swapped in meanwhile.
    """
    path = Path(path)
    with map_errors(path), suppress(FileNotFoundError):
        if stat.S_ISDIR(path.lstat().st_mode):
            shutil.rmtree(path)
        else:
            path.unlink()


@contextmanager
def file_lock(path: StrPath, *, timeout_s: float = 60.0) -> Iterator[None]:
    """Hold the exclusive lock of a file, which is made if needed and never deleted.

    The kernel drops the lock of a process that dies. It does not nest: a holder that asks again
    waits for itself.

    Raises:
        StorageError: Another process held it for ``timeout_s``.
    """
    with map_errors(path):
        descriptor = os.open(path, _LOCK_FILE, _PUBLIC_MODE)
    try:
        with map_errors(path):
            _lock(descriptor, path, time.monotonic() + timeout_s)
        yield
    finally:
        # Unlocked by name: a child forked meanwhile has the descriptor too and would keep it.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _check_source(source: Path, target: Path) -> None:
    try:
        with map_errors(source):
            found = source.lstat()
    except NotFoundError as error:
        if not _lexists(target):
            raise
        raise CommitUnknownError(
            f"{source} is gone and {target} is there: another try, or a repeated request, may have"
            " renamed it; nothing was changed; retry: a retry first looks for the result"
        ) from error
    if not stat.S_ISDIR(found.st_mode):
        raise NotFoundError(f"{source}: expected a folder, got another kind of file")


def _lexists(path: Path) -> bool:
    with map_errors(path), suppress(FileNotFoundError):
        path.lstat()
        return True
    return False


def _rename_error(error: OSError, source: Path, target: Path) -> StorageError:
    place = f"{source} -> {target}"
    reason = (error.strerror or str(error)).lower()
    # A file at the target is "not a directory"; so is one among its parents.
    taken = error.errno == errno.ENOTDIR and _is_taken(target)
    kind = ConflictError if taken else kind_of_errno(error.errno)
    if kind is UnsuitableStoreError and error.errno == errno.EXDEV:
        return kind(
            f"{place}: {reason}; staging and versions must lie on one file system, in one subvolume"
            " and one quota realm; nothing was moved"
        )
    if kind is StorageError:
        return CommitUnknownError(
            f"{place}: {reason}; the rename may have taken place; nothing was deleted; look from a"
            " client that works, or retry: a retry first looks for the result"
        )
    return storage_error(kind, place, reason)


def _is_taken(target: Path) -> bool:
    try:
        return _lexists(target)
    except StorageError:
        return False


@contextmanager
def _written(path: StrPath, data: bytes, mode: int, *, is_public: bool) -> Iterator[UnfinishedFile]:
    with UnfinishedFile(path, unfinished=temporary_path(str(path)), mode=mode) as new:
        write_all(new.file, data)
        if is_public:
            new.set_mode(_PUBLIC_MODE)
        yield new


def _lock(descriptor: int, path: StrPath, deadline_s: float) -> None:
    never = threading.Event()
    pause_s = _FIRST_LOOK_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline_s:
                raise StorageError(
                    f"{os.fspath(path)}: another process holds this lock and keeps it;"
                    " run this again when that process has ended"
                ) from None
            never.wait(pause_s)
            pause_s = min(2 * pause_s, _LAST_LOOK_S)
        else:
            return

"""Mounted file systems: locks of files between processes, and the test of their operations."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from trainfeed.core.datacenters import local_target
from trainfeed.errors import StorageError, UnsuitableStoreError
from trainfeed.files import kind_of_errno, os_errors, storage_error

# --- Locks of files between processes, which the kernel drops when their holder dies

_LOCK_FILE: Final = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK_MODE: Final = 0o644
_EXISTING: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
# The kernel has no wait for a lock with a deadline, so the lock is polled: after 10 ms at first,
# for locks held during a pointer's update, and twice a second later, for locks held for hours.
_FIRST_LOOK_S: Final = 0.01
_LAST_LOOK_S: Final = 0.5


@contextmanager
def file_lock(path: str | os.PathLike[str], *, timeout_s: float = 60.0) -> Iterator[None]:
    """Hold the exclusive lock of a file, which is made if needed and never deleted.

    The kernel drops the lock of a process that dies. Locks do not nest: a holder that locks again
    waits for itself.

    Raises:
        StorageError: Another process held the lock for ``timeout_s``.
    """
    with _opened(path, _LOCK_FILE) as descriptor:
        with os_errors(path):
            _lock(descriptor, path, fcntl.LOCK_EX, time.monotonic() + timeout_s)
        yield


@contextmanager
def shared_lock(path: str | os.PathLike[str], *, timeout_s: float = 60.0) -> Iterator[None]:
    """Hold a lock of an existing file beside other holders; the file need not be writable.

    Raises:
        NotFoundError: The file is not there.
        StorageError: A process held the exclusive lock for ``timeout_s``, or the file system allows
            this account no lock.
    """
    with _opened(path, _EXISTING) as descriptor:
        with os_errors(path):
            _lock(descriptor, path, fcntl.LOCK_SH, time.monotonic() + timeout_s)
        yield


@contextmanager
def try_lock(path: str | os.PathLike[str]) -> Iterator[bool]:
    """Hold the exclusive lock of an existing file if nobody holds any; yield whether it is held.

    Raises:
        NotFoundError: The file is not there.
        StorageError: The file system refused or failed.
    """
    with _opened(path, _EXISTING) as descriptor:
        with os_errors(path):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_held = True
            except BlockingIOError:
                is_held = False
        yield is_held


@contextmanager
def _opened(path: str | os.PathLike[str], flags: int) -> Iterator[int]:
    """Open the file of a lock, and drop the lock at the end."""
    path = local_target(path)
    with os_errors(path):
        descriptor = os.open(path, flags, _LOCK_MODE)
    try:
        yield descriptor
    finally:
        # Unlocked explicitly: a child forked meanwhile shares the descriptor, and would keep the
        # lock after ``close``.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _lock(descriptor: int, path: str | os.PathLike[str], how: int, deadline_s: float) -> None:
    never = threading.Event()
    pause_s = _FIRST_LOOK_S
    while True:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
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


# --- Tests whether a file system is suitable for versions, before anything depends on it

_CONTENT: Final = b"probe\n"
# Errors that do not mean an unsuitable file system: a missing folder, permissions, space, a client
# that its server has evicted, a failing disk, a machine without memory or descriptors.
_NOT_ITS_FAULT: Final = {
    errno.ENOENT,
    errno.EACCES,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.ECONNABORTED,
    errno.ENOTCONN,
    errno.ESHUTDOWN,
    errno.ESTALE,
    errno.ETIMEDOUT,
    errno.EAGAIN,
    errno.EBUSY,
    errno.EINTR,
    errno.EIO,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
}


def probe(root: str | os.PathLike[str], *, into: str | os.PathLike[str] | None = None) -> None:
    """Try every operation that publication needs; remove all files afterwards.

    The operations are: creation that refuses a taken name, hard links that refuse one, the rename
    of a folder onto one with content (must be refused), the rename of a folder from ``root`` into
    ``into``, and the sync of files and folders. The probe takes some milliseconds and may run
    beside publications.

    Args:
        root: Existing folder: a publication root, or a data set's staging folder.
        into: Existing folder into which versions are renamed, if it is another one. A quota border
            between both shows only with the real pair.

    Raises:
        UnsuitableStoreError: An operation failed; the message names it. Versions must not be
            published there.
        NotFoundError: A folder is not there.
        AccessDeniedError: This user may not write there.
        QuotaExceededError: A quota or the disk is full.
        StorageError: The server does not answer, or has evicted this client; or the disk failed, or
            the machine lacks memory or descriptors.
    """
    root = Path(local_target(root))
    into = root if into is None else Path(local_target(into))
    scratch = root / f".probe-{uuid.uuid4().hex}"
    moved = into / f"{scratch.name}.moved"
    try:
        with _required(root, "a folder that can be written"):
            scratch.mkdir(0o700)
        _probe_creation(scratch)
        _probe_links(scratch)
        _probe_sync(scratch)
        _probe_commit(scratch, moved)
    finally:
        for folder in (scratch, moved):
            shutil.rmtree(folder, ignore_errors=True)


def _probe_creation(scratch: Path) -> None:
    file = scratch / "created"
    with _required(scratch, "exclusive creation (O_EXCL) of a file"):
        file.touch(exist_ok=False)
        _must_refuse(lambda: file.touch(exist_ok=False))


def _probe_links(scratch: Path) -> None:
    file, link = scratch / "linked", scratch / "link"
    with _required(scratch, "hard links that refuse a taken name"):
        file.write_bytes(_CONTENT)
        link.hardlink_to(file)
        _must_refuse(lambda: link.hardlink_to(file))


def _probe_sync(scratch: Path) -> None:
    with _required(scratch, "fsync of a file and of a folder"):
        for path in (scratch / "created", scratch):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _probe_commit(scratch: Path, moved: Path) -> None:
    first, second = scratch / "first", scratch / "second"
    with _required(moved.parent, f"renaming a folder from {scratch.parent} to here"):
        for folder in (first, second):
            folder.mkdir()
            (folder / "file").write_bytes(_CONTENT)
        # The content is read behind the rename: the whole folder must have moved.
        first.rename(moved)
        if (moved / "file").read_bytes() != _CONTENT:
            raise OSError(errno.EOPNOTSUPP, "the renamed folder has another content")
    with _required(moved.parent, "renaming a folder onto one that holds something to be refused"):
        _must_refuse(lambda: second.rename(moved))


def _must_refuse(call: Callable[[], object]) -> None:
    try:
        call()
    except OSError as error:
        if error.errno not in {errno.EEXIST, errno.ENOTEMPTY}:
            raise
    else:
        raise OSError(errno.EOPNOTSUPP, "it was not refused")


@contextmanager
def _required(place: Path, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _verdict(error, place, what) from error


def _verdict(error: OSError, place: Path, what: str) -> StorageError:
    reason = (error.strerror or str(error)).lower()
    if error.errno in _NOT_ITS_FAULT:
        return storage_error(kind_of_errno(error.errno), str(place), reason)
    return UnsuitableStoreError(
        f"{place}: expected {what}, got: {reason}; nothing was published; use a file system with"
        " POSIX renames and links, mounted for writing, in one quota realm"
    )

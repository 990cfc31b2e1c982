"""Locks of files between processes, which the kernel drops when their holder dies."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from trainfeed.datacenters import local_target
from trainfeed.errors import StorageError
from trainfeed.paths import os_errors

__all__ = ["file_lock", "shared_lock", "try_lock"]

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

"""Translates errors of the operating system to errors of this package, with one table for all."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from trainfeed.errors import (
    AccessDeniedError,
    ConflictError,
    NotFoundError,
    QuotaExceededError,
    StorageError,
    UnsuitableStoreError,
)
from trainfeed.paths._file_names import FilePath

__all__ = ["ERRNO_KINDS", "kind_of_errno", "os_errors", "storage_error"]

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
    AccessDeniedError: "let the user of this process in, or run as another",
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

"""From the operating system's errors to ours: one table, used for every POSIX path."""

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

# What is missing here is a plain StorageError: another try may get past it.
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
    """An error of ``kind`` that says where, why and, as far as the kind tells, what to do."""
    remedy = _REMEDIES.get(kind)
    return kind(f"{place}: {reason}" + (f"; {remedy}" if remedy else ""))


def kind_of_errno(number: int | None) -> type[StorageError]:
    """The class for an errno; ``StorageError`` itself for those that mean nothing definite."""
    return ERRNO_KINDS.get(number or 0, StorageError)


@contextmanager
def os_errors(path: FilePath | None) -> Iterator[None]:
    """Raise an ``OSError`` of the block as the ``StorageError`` that it means for ``path``.

    Args:
        path: What to call the file in the message, None when it has no name.
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
    """What is free where ``place`` is, or would be."""
    while True:
        try:
            found = os.statvfs(place)
        except OSError:
            above = os.path.dirname(place)  # noqa: PTH120 - a path of any kind
            if above == place:
                return None
            place = above
        else:
            return found.f_bavail * found.f_frsize

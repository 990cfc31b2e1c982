"""What the operating system refuses, as the storage errors that say so."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from trainfeed.errors import (
    AccessDeniedError,
    ConflictError,
    NotFoundError,
    QuotaExceededError,
    StorageError,
)

__all__ = ["os_errors"]

_KINDS: Final = {
    errno.ENOENT: NotFoundError,
    errno.EACCES: AccessDeniedError,
    errno.EPERM: AccessDeniedError,
    errno.EEXIST: ConflictError,
    errno.ENOSPC: QuotaExceededError,
    errno.EDQUOT: QuotaExceededError,
}


@contextmanager
def os_errors(path: str | None) -> Iterator[None]:
    """Raise what the operating system refuses as the storage error that says so.

    Args:
        path: What to call the file in the message, None when it has no name.
    """
    try:
        yield
    except OSError as error:
        kind = _KINDS.get(error.errno or 0, StorageError)
        raise kind(f"{error.strerror or error} at {path or 'an unnamed file'}") from error

"""Reads a small file whole, and shows that it did not change meanwhile."""

from __future__ import annotations

import os

from trainfeed.errors import FileReplacedError, UnsuitableStoreError
from trainfeed.pfs.trees._tree_values import SMALL_BYTES

__all__ = ["read_small"]


def read_small(fd: int, shown: str) -> bytes:
    """Return the bytes of an open plain file of at most ``SMALL_BYTES``.

    Raises:
        FileReplacedError: The file changed while it was read.
        UnsuitableStoreError: The file is larger.
        OSError: The system failed.
    """
    before = os.fstat(fd)
    if before.st_size > SMALL_BYTES:
        raise UnsuitableStoreError(
            f"{shown}: expected at most {SMALL_BYTES} bytes, got {before.st_size}; nothing was read"
        )
    # One more byte detects growth.
    data = os.pread(fd, before.st_size + 1, 0)
    after = os.fstat(fd)
    if (len(data), after.st_size, after.st_mtime_ns) != (
        before.st_size,
        before.st_size,
        before.st_mtime_ns,
    ):
        raise FileReplacedError(
            f"{shown}: expected no change during the copy, got other bytes; nothing was kept;"
            " repeat the command when its writer has ended"
        )
    return data

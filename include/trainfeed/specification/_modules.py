"""Reads the Python files beside a specification as text: they are digested, and never large."""

from __future__ import annotations

from typing import Final

from trainfeed.paths import FilePath, read_plain

__all__ = ["read_module"]

_MAX_BYTES: Final = 16 << 20


def read_module(path: FilePath) -> bytes:
    """Return the source of a module.

    Raises:
        NotFoundError: There is no such file.
        FormatError: It is no file, or larger than 16 MiB.
        StorageError: It cannot be read.
    """
    return read_plain(path, follow=True, max_bytes=_MAX_BYTES)

"""Writes several pieces to a plain file with one call.

The kernel keeps bytes that come with one call in larger pieces of page cache: three megabytes at
once take half the time of one megabyte after another.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from typing import BinaryIO, Final

from trainfeed.paths._errors import os_errors
from trainfeed.paths._file_names import path_of
from trainfeed.paths._written import TargetFile, takes_no_more

__all__ = ["can_gather", "write_gathered"]

# The system takes up to 1024 pieces with a call.
_MAX_PIECES: Final = 512


def can_gather(file: BinaryIO) -> bool:
    """Return whether ``file`` is a plain unbuffered file; others may do anything in ``write``."""
    return type(file) in (io.FileIO, TargetFile)


def write_gathered(file: BinaryIO, pieces: Sequence[bytes | memoryview]) -> None:
    """Write all pieces to a file that ``can_gather``, one after another.

    Raises:
        QuotaExceededError: The disk is full.
        StorageError: The file refused the bytes.
    """
    rest = [memoryview(piece) for piece in pieces if len(piece)]
    path = file.place if isinstance(file, TargetFile) else path_of(file)
    with os_errors(path):
        while rest:
            num_bytes = os.writev(file.fileno(), rest[:_MAX_PIECES])
            if not num_bytes:
                raise takes_no_more(path)
            rest = _after(rest, num_bytes)


def _after(pieces: list[memoryview], num_bytes: int) -> list[memoryview]:
    """Return what follows the first ``num_bytes`` of pieces."""
    for number, piece in enumerate(pieces):
        if num_bytes < len(piece):
            return [piece[num_bytes:], *pieces[number + 1 :]]
        num_bytes -= len(piece)
    return []

"""The input of readers: paths, or open binary files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from trainfeed.paths import FilePath, open_plain, os_errors

__all__ = ["open_file", "read_at"]


@contextmanager
def open_file(file: FilePath | BinaryIO) -> Iterator[BinaryIO]:
    """Open a path and close it at the end; yield a binary file unchanged and leave it open.

    Raises:
        NotFoundError: No file is at the path.
        FormatError: The path is not a plain file.
        StorageError: The file cannot be opened.
    """
    if not isinstance(file, str | os.PathLike):
        yield file
        return
    with open_plain(file, follow=True, buffering=0) as opened:
        yield opened


def read_at(file: BinaryIO, offset_bytes: int, num_bytes: int, path: str | None) -> bytes:
    """Return bytes of a seekable file, fewer only at its end; moves the position of the file.

    Raises:
        StorageError: The file cannot be read.
    """
    pieces, left_bytes = [], num_bytes
    with os_errors(path):
        file.seek(offset_bytes)
        while left_bytes and (piece := file.read(left_bytes)):
            pieces.append(piece)
            left_bytes -= len(piece)
    return b"".join(pieces)

"""The input of readers: paths, or open binary files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from trainfeed.paths import FilePath, open_plain, os_errors, path_of

__all__ = ["FirstBytes", "open_file", "read_at"]


class FirstBytes:
    """The first bytes of an open file, as a file that ends there; shares its position.

    Args:
        file: A seekable binary file.
        end_bytes: Where to end.
    """

    def __init__(self, file: BinaryIO, end_bytes: int) -> None:
        self._file = file
        self._end_bytes = end_bytes
        self.name = path_of(file)

    def tell(self) -> int:
        """Return the position."""
        return self._file.tell()

    def seek(self, offset_bytes: int, whence: int = os.SEEK_SET) -> int:
        """Move to a position, from the start or, with ``SEEK_END``, from the end."""
        from_end = whence == os.SEEK_END
        return self._file.seek(offset_bytes + (self._end_bytes if from_end else 0))

    def read(self, num_bytes: int) -> bytes:
        """Return up to ``num_bytes``; none at the end."""
        return self._file.read(max(min(num_bytes, self._end_bytes - self._file.tell()), 0))


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

"""The log file of a rank, of bounded size: a long log loses its middle, not its ends."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from trainfeed.paths import os_errors

__all__ = ["BoundedLog"]

MAX_BYTES: Final = 16 << 20
# Bytes that are kept at the beginning, and at the end, when the log becomes too large.
_HEAD_BYTES: Final = 256 << 10
_TAIL_BYTES: Final = 8 << 20
_OPEN: Final = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class BoundedLog:
    """A file that takes any number of bytes and never has more than 16 MiB.

    Args:
        path: The file; earlier content is removed.

    Raises:
        StorageError: The file cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with os_errors(path):
            self._descriptor = os.open(path, _OPEN, 0o644)
        self._size = 0
        self._num_left_out = 0

    def write(self, data: bytes) -> None:
        """Append bytes; a file that becomes too large first loses its middle.

        Raises:
            StorageError: The file system refused.
        """
        with os_errors(self._path):
            if self._size + len(data) > MAX_BYTES:
                self._shorten()
            self._write_at(data, self._size)
        self._size += len(data)

    def close(self) -> None:
        """Close the file; safe to call twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _write_at(self, data: bytes, place: int) -> None:
        # A disk that fills takes a part without an error.
        while data:
            written = os.pwrite(self._descriptor, data, place)
            data, place = data[written:], place + written

    def _shorten(self) -> None:
        # Layout afterwards: first 256 KiB, a note with the number of lost bytes, last 8 MiB. The
        # head keeps its place, so an earlier note lies in the part that is removed.
        tail = os.pread(self._descriptor, _TAIL_BYTES, self._size - _TAIL_BYTES)
        self._num_left_out += self._size - _HEAD_BYTES - len(tail)
        note = f"\n… {self._num_left_out} bytes of this log were left out here …\n".encode()
        start = _HEAD_BYTES + len(note)
        self._write_at(note + tail, _HEAD_BYTES)
        self._size = start + len(tail)
        os.ftruncate(self._descriptor, self._size)

"""The storage of ``cache``: memory first, then a file without a name."""

from __future__ import annotations

import os
import pickle  # noqa: TID251 (a file without a name that this process and its forks read)
import struct
import sys
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from trainfeed.errors import MemoryLimitError
from trainfeed.paths import os_errors

__all__ = ["SpillFile", "Store", "StoreLimits"]

_SPILL_BYTES: Final = 1 << 20
_LENGTH: Final = struct.Struct("<Q")


@dataclass(frozen=True)
class StoreLimits:
    """Limits for kept samples.

    Attributes:
        max_bytes: Limit for memory.
        max_spill_bytes: Limit for the file; None sets no limit.
        folder: Folder of the file; None is the temporary folder of the system.
    """

    max_bytes: int
    max_spill_bytes: int | None
    folder: str | None


class SpillFile:
    """Lists of samples in a file without a name, of frames ``num_bytes u64, pickle``.

    Args:
        folder: See ``StoreLimits``.
        max_bytes: Limit for the frames; None sets no limit.

    Raises:
        StorageError: The file cannot be made in the folder.
    """

    def __init__(self, folder: str | None, max_bytes: int | None) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        with os_errors(folder):
            self._fd, path = tempfile.mkstemp(dir=folder)
            # Without a name the file is freed with its last descriptor, also after SIGKILL.
            Path(path).unlink()
        weakref.finalize(self, os.close, self._fd)
        self._end = 0

    def append(self, items: list[Any]) -> None:
        """Append a list of items.

        Raises:
            MemoryLimitError: The file would exceed its limit.
            QuotaExceededError: The disk is full.
        """
        data = pickle.dumps(items, protocol=5)
        num_bytes = self._end + _LENGTH.size + len(data)
        if self._max_bytes is not None and num_bytes > self._max_bytes:
            raise MemoryLimitError(
                f"expected at most {self._max_bytes} bytes of samples in the file of cache(), they"
                f" take {num_bytes} and more, nothing was kept; raise max_bytes or max_spill_bytes"
                " of cache(), or take it away: the reader may have no end"
            )
        self._write(_LENGTH.pack(len(data)), self._end)
        self._write(data, self._end + _LENGTH.size)
        self._end += _LENGTH.size + len(data)

    def __iter__(self) -> Iterator[Any]:
        """Yield the items; every iterator has its own position, so passes may overlap."""
        position, end = 0, self._end
        while position < end:
            (num_bytes,) = _LENGTH.unpack(self._read(_LENGTH.size, position))
            yield from pickle.loads(self._read(num_bytes, position + _LENGTH.size))  # noqa: S301
            position += _LENGTH.size + num_bytes

    def _write(self, data: bytes, position: int) -> None:
        rest = memoryview(data)
        with os_errors(self._folder):
            while rest:
                num_bytes = os.pwrite(self._fd, rest, position)
                rest, position = rest[num_bytes:], position + num_bytes

    def _read(self, num_bytes: int, position: int) -> bytearray:
        data = bytearray(num_bytes)
        rest = memoryview(data)
        with os_errors(self._folder):
            # A single read returns at most 2 GiB.
            while rest and (num_read := os.preadv(self._fd, [rest], position)):
                rest, position = rest[num_read:], position + num_read
        return data


class Store:
    """Items in memory, and further items in a file.

    Args:
        limits: Limits for memory and file.
    """

    def __init__(self, limits: StoreLimits) -> None:
        self._limits = limits
        self._items: list[Any] = []
        self._left_bytes = limits.max_bytes
        self._file: SpillFile | None = None
        self._pending: list[Any] = []
        self._pending_bytes = 0

    def append(self, item: Any) -> None:
        """Keep a further item.

        Raises:
            MemoryLimitError: The items exceed the limits.
            QuotaExceededError: The disk is full.
        """
        num_bytes = _size_bytes(item)
        if self._file is None and num_bytes <= self._left_bytes:
            self._left_bytes -= num_bytes
            self._items.append(item)
            return
        if self._file is None:
            self._file = SpillFile(self._limits.folder, self._limits.max_spill_bytes)
        self._pending.append(item)
        self._pending_bytes += num_bytes
        if self._pending_bytes >= _SPILL_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the waiting items to the file."""
        if self._file is not None and self._pending:
            self._file.append(self._pending)
            self._pending, self._pending_bytes = [], 0

    def __iter__(self) -> Iterator[Any]:
        yield from self._items
        if self._file is not None:
            yield from self._file


def _size_bytes(item: Any) -> int:
    """Return an estimate of the bytes that an item takes."""
    if isinstance(item, np.ndarray):
        return item.nbytes + sys.getsizeof(None)
    if isinstance(item, list | tuple):
        return sys.getsizeof(item) + sum(map(_size_bytes, item))
    if isinstance(item, Mapping):
        return sys.getsizeof(item) + sum(map(_size_bytes, item.values()))
    return sys.getsizeof(item)

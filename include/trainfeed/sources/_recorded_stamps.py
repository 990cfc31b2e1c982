"""Offsets and timestamps of recorded files, kept in memory from one opening of a topic to the next.

The search for a boundary samples the whole log, and a process that builds many intervals opens the
topic for each of them: without these, it would read the columns of every file for every interval.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["FileKey", "FileStamps", "KeptStamps"]

_NO_STAMPS: Final = np.empty(0, np.int64)


class FileKey(NamedTuple):
    """A state of a file: one that was written again, or belongs to another topic, differs.

    Attributes:
        uuid: Id of the topic.
        uri: The file.
        size_bytes: Its length.
        modified_ms: When it was written, milliseconds since 1970 UTC.
    """

    uuid: str
    uri: str
    size_bytes: int
    modified_ms: int


class FileStamps(NamedTuple):
    """The records of a file.

    Attributes:
        offsets: Ascending, int64 of shape (n,).
        stamps: Milliseconds since 1970 UTC, int64 of shape (n,); -1 where a record has none.
        latest_ms: The latest stamp; -1 without records.
    """

    offsets: NDArray[np.int64]
    stamps: NDArray[np.int64]
    latest_ms: int

    @classmethod
    def of(cls, parts: list[tuple[NDArray[np.int64], NDArray[np.int64]]]) -> FileStamps:
        """Join the parts of a file."""
        columns = zip(*[(_NO_STAMPS, _NO_STAMPS), *parts], strict=True)
        offsets, stamps = (np.concatenate(column) for column in columns)
        for column in (offsets, stamps):
            column.flags.writeable = False
        return cls(offsets, stamps, int(stamps.max()) if len(stamps) else -1)

    @property
    def num_bytes(self) -> int:
        """Bytes in memory."""
        return self.offsets.nbytes + self.stamps.nbytes


class KeptStamps:
    """Keeps the files that were used last, up to a number of bytes, and always the last one.

    Args:
        most_bytes: The number.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._num_bytes = 0
        self._files = OrderedDict[FileKey, FileStamps]()
        self._lock = threading.Lock()

    def get(self, key: FileKey, load: Callable[[], FileStamps]) -> FileStamps:
        """Return the records of a file; ``load`` is called for one that is not kept."""
        with self._lock:
            if key in self._files:
                self._files.move_to_end(key)
                return self._files[key]
        found = load()
        with self._lock:
            self._keep(key, found)
        return found

    def _keep(self, key: FileKey, found: FileStamps) -> None:
        before = self._files.pop(key, None)
        self._num_bytes += found.num_bytes - (before.num_bytes if before else 0)
        self._files[key] = found
        while self._num_bytes > self._most_bytes and len(self._files) > 1:
            self._num_bytes -= self._files.popitem(last=False)[1].num_bytes

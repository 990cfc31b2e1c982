"""Base class of the writers of record files: a path or an open file as target, closed once."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from types import TracebackType
from typing import BinaryIO, Final, Self

from trainfeed.paths._file_names import FilePath
from trainfeed.paths._gathered_writes import can_gather, write_gathered
from trainfeed.paths._new_file import NewFile
from trainfeed.paths._written import write_all

__all__ = ["TargetWriter"]

# Pieces are written together once they have this size: larger calls gain nothing, and the pieces
# would leave the cache before they are written.
_GATHERED_BYTES: Final = 2 << 20
# Small pieces are not kept in any number either.
_GATHERED_PIECES: Final = 512


class TargetWriter(ABC):
    """Writes to a path, whose file appears when the writer is closed, or to an open file.

    The context manager closes the writer at the end of the block, and drops the file after an
    exception. After an error of the file the writer is closed; do not use the bytes written so
    far.

    Args:
        target: A path; or an open binary file, written from its current position and left open.

    Raises:
        ConflictError: The path is taken.
    """

    def __init__(self, target: FilePath | BinaryIO) -> None:
        self._new_file: NewFile | None = None
        if isinstance(target, str | os.PathLike):
            # The path is written as an unfinished file, and named by ``close``.
            self._new_file = NewFile(target)
            target = self._new_file.file
        self._file: BinaryIO | None = target
        self._waiting: list[bytes | memoryview] = []
        self._waiting_bytes = 0

    def close(self) -> None:
        """Write the buffered rest; sync and name the file if the target is a path.

        A closed writer is left as it is.

        Raises:
            ConflictError: The path was taken meanwhile.
            QuotaExceededError: The disk is full.
            StorageError: The file refused the bytes.
        """
        if self._file is None:
            return
        self._write_rest()
        self._write_waiting()
        self._end()
        if self._new_file is not None:
            self._new_file.commit()

    def __enter__(self) -> Self:
        """Return the writer itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close after success, drop the file after an exception."""
        if kind is None:
            self.close()
        else:
            self._abandon()

    @abstractmethod
    def _write_rest(self) -> None:
        """Pass the buffered rest of the format to ``_put`` or ``_put_later``."""

    def _put(self, *pieces: bytes | memoryview) -> None:
        file = self._require_open()
        try:
            for piece in pieces:
                write_all(file, piece)
        except BaseException:
            # The file may end in part of a record: readers would not find a record after it.
            self._abandon()
            raise

    def _put_later(self, *pieces: bytes | memoryview) -> None:
        """Write pieces, a plain file's together with further ones; their bytes must not change.

        A writer uses either this or ``_put``: the order of bytes is that of calls of one of them.
        """
        if not can_gather(self._require_open()):
            self._put(*pieces)
            return
        self._waiting += pieces
        self._waiting_bytes += sum(map(len, pieces))
        if self._waiting_bytes >= _GATHERED_BYTES or len(self._waiting) >= _GATHERED_PIECES:
            self._write_waiting()

    def _write_waiting(self) -> None:
        try:
            if self._waiting:
                write_gathered(self._require_open(), self._waiting)
        except BaseException:
            self._abandon()
            raise
        self._forget_waiting()

    def _forget_waiting(self) -> None:
        self._waiting, self._waiting_bytes = [], 0

    def _end(self) -> None:
        self._file = None
        self._forget_waiting()

    def _abandon(self) -> None:
        self._end()
        if self._new_file is not None:
            self._new_file.abandon()

    def _require_open(self) -> BinaryIO:
        if self._file is None:
            raise ValueError("the writer is closed")
        return self._file

"""What writers of record files share: a path or an open file to write to, closed once."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from types import TracebackType
from typing import BinaryIO, Self

from trainfeed.paths._file_names import FilePath
from trainfeed.paths._new_file import NewFile
from trainfeed.paths._written import write_all

__all__ = ["TargetWriter"]


class TargetWriter(ABC):
    """Writes to a path, where the file appears when it is closed, or to an open file.

    As a context manager it closes the file, or drops it after an exception. After an error of the
    file the writer is closed and what it wrote is not to be used.

    Args:
        target: A path; or a binary file, which is written from its position on and stays open.

    Raises:
        ConflictError: A file is at the path.
    """

    def __init__(self, target: FilePath | BinaryIO) -> None:
        self._new_file: NewFile | None = None
        if isinstance(target, str | os.PathLike):
            self._new_file = NewFile(target)
            target = self._new_file.file
        self._file: BinaryIO | None = target

    def close(self) -> None:
        """Write what is left and, where a path was given, sync the file and name it.

        Does nothing on a closed writer.

        Raises:
            ConflictError: The path was taken meanwhile.
            QuotaExceededError: The disk is full.
            StorageError: The file refused the bytes.
        """
        if self._file is None:
            return
        self._write_rest()
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
        """Hand to ``_put`` what was held back; of the writer's format."""

    def _put(self, *pieces: bytes | memoryview) -> None:
        file = self._require_open()
        try:
            for piece in pieces:
                write_all(file, piece)
        except BaseException:
            # Part of a record may be in the file: another one behind it would not be found.
            self._abandon()
            raise

    def _end(self) -> None:
        self._file = None

    def _abandon(self) -> None:
        self._end()
        if self._new_file is not None:
            self._new_file.abandon()

    def _require_open(self) -> BinaryIO:
        if self._file is None:
            raise ValueError("the writer is closed")
        return self._file

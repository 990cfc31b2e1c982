"""Writes many small files in steps: all are written, then all synced, read back and named.

The first sync of a batch makes the servers of a network file system write their journals; for the
other files of the batch the journal is then written already.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from trainfeed import faults
from trainfeed.errors import ChecksumError, TrainFeedError
from trainfeed.paths import os_errors
from trainfeed.pfs.trees._handed_over import hand_over
from trainfeed.pfs.trees._naming import name_file
from trainfeed.pfs.trees._tree_values import SmallFile

__all__ = ["SmallWrites"]

_MODE: Final = 0o644
_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass
class _Write:
    """One file that is being written; the descriptors are those of its folder and of itself."""

    above: int
    fd: int
    name: str
    temporary: str
    file: SmallFile
    shown: str


class SmallWrites:
    """A batch of small files; the context manager closes what is open.

    Args:
        replace: Whether a file that has a name is replaced.
        is_hidden: Whether the files are written under their own names.
        hands_over: Whether each file gets the owner of its folder.
    """

    def __init__(self, *, replace: bool, is_hidden: bool, hands_over: bool) -> None:
        self._replace = replace
        self._is_hidden = is_hidden
        self._hands_over = hands_over
        self._writes: list[_Write | None] = []
        self._errors: list[TrainFeedError | None] = []

    def begin(self, above: int, name: str, file: SmallFile, shown: str) -> None:
        """Write the bytes of a file; the last error of a step is kept for ``finish``.

        Args:
            above: Descriptor of the folder that holds the file; valid until the end of the batch.
            name: Name of the file.
            file: Its bytes.
            shown: Its place, for messages.

        Raises:
            TrainFeedError: The system refused or failed; what was written is removed.
        """
        temporary = name if self._is_hidden else f".pfs.{uuid.uuid4().hex}.tmp"
        flags = _NEW | (os.O_TRUNC if self._is_hidden else os.O_EXCL)
        with os_errors(shown):
            fd = os.open(temporary, flags, _MODE, dir_fd=above)
            write = _Write(above, fd, name, temporary, file, shown)
            try:
                _write_all(fd, file.data)
                if self._hands_over:
                    hand_over(above, fd)
            except BaseException:
                _drop(write)
                raise
        self._writes.append(write)
        self._errors.append(None)

    def fail(self, error: TrainFeedError) -> None:
        """Note a file that could not be written."""
        self._writes.append(None)
        self._errors.append(error)

    def finish(self) -> list[TrainFeedError | None]:
        """Sync, compare and name all files; return the error of each, or None."""
        faults.point("pfs.small_written")
        self._step(_sync)
        self._step(_compare)
        faults.point("pfs.small_compared")
        if not self._is_hidden:
            self._step(self._name)
        return self._errors

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for write in filter(None, self._writes):
            if error is None:
                os.close(write.fd)
            else:
                _drop(write)
        self._writes.clear()

    def _step(self, step: Callable[[_Write], None]) -> None:
        for index, write in enumerate(self._writes):
            if write is None:
                continue
            try:
                with os_errors(write.shown):
                    step(write)
            except TrainFeedError as error:
                self._errors[index], self._writes[index] = error, None
                _drop(write)

    def _name(self, write: _Write) -> None:
        name_file(
            write.above, write.temporary, write.name, replace=self._replace, shown=write.shown
        )


def _sync(write: _Write) -> None:
    os.fsync(write.fd)


def _compare(write: _Write) -> None:
    """Read a file back and compare it with what was written."""
    os.posix_fadvise(write.fd, 0, 0, os.POSIX_FADV_DONTNEED)
    if os.pread(write.fd, len(write.file.data) + 1, 0) != write.file.data:
        raise ChecksumError(
            "expected the bytes as they were written, read back others; the file was removed;"
            " repeat the command",
            path=write.shown,
        )


def _write_all(fd: int, data: bytes) -> None:
    rest, offset = memoryview(data), 0
    while rest:
        count = os.pwrite(fd, rest, offset)
        rest, offset = rest[count:], offset + count


def _drop(write: _Write) -> None:
    """Remove what was written; the first error says more than one of the removal."""
    with suppress(OSError):
        os.unlink(write.temporary, dir_fd=write.above)
    os.close(write.fd)

"""Writes many small files in steps: all are written, then all synced, read back and named.

Each step is done by several threads. The first syncs of a batch make the servers of a network file
system write their journals; for the other files of the batch the journal is then written already.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Final, Self

from trainfeed import faults
from trainfeed.errors import ChecksumError, TrainFeedError
from trainfeed.paths import os_errors
from trainfeed.pfs.trees._handed_over import hand_over
from trainfeed.pfs.trees._naming import name_file, sync_folder_at
from trainfeed.pfs.trees._parallel_calls import in_threads
from trainfeed.pfs.trees._tree_values import Parts, SmallFile

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
        self._writes: dict[int, _Write] = {}
        self._errors: dict[int, TrainFeedError] = {}
        self._count = 0

    def begin(self, files: Sequence[tuple[SmallFile, str]], above: Callable[[Parts], int]) -> None:
        """Write the bytes of files; a file that fails is removed, and its error kept.

        Args:
            files: Files with different places, and how messages show each.
            above: Returns the descriptor of the folder that holds a file, valid until the end of
                the batch; raises ``TrainFeedError`` for a file that may not be written.
        """
        self._count = len(files)

        def begin(index: int) -> None:
            file, shown = files[index]
            try:
                self._begin(index, above(file.parts), file, shown)
            except TrainFeedError as error:
                self._errors[index] = error

        in_threads(begin, range(self._count))

    def finish(self) -> list[TrainFeedError | None]:
        """Sync, compare and name all files; return the error of each, or None."""
        faults.point("pfs.small_written")
        self._step(_sync)
        self._step(_compare)
        faults.point("pfs.small_compared")
        if not self._is_hidden:
            self._step(self._name)
            faults.point("pfs.small_named")
            in_threads(self._sync_folder, {write.above for write in self._writes.values()})
        return [self._errors.get(index) for index in range(self._count)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for write in self._writes.values():
            if error is None:
                os.close(write.fd)
            else:
                _drop(write)
        self._writes.clear()

    def _begin(self, index: int, above: int, file: SmallFile, shown: str) -> None:
        name = file.parts[-1]
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
        self._writes[index] = write

    def _step(self, step: Callable[[_Write], None]) -> None:
        in_threads(partial(self._stepped, step), list(self._writes))

    def _stepped(self, step: Callable[[_Write], None], index: int) -> None:
        write = self._writes[index]
        try:
            with os_errors(write.shown):
                step(write)
        except TrainFeedError as error:
            self._errors[index] = error
            _drop(self._writes.pop(index))

    def _name(self, write: _Write) -> None:
        name_file(
            write.above, write.temporary, write.name, replace=self._replace, shown=write.shown
        )

    def _sync_folder(self, above: int) -> None:
        """Make the names in a folder durable; a failure is that of each file there."""
        there = {index: write for index, write in self._writes.items() if write.above == above}
        try:
            with os_errors(next(iter(there.values())).shown):
                sync_folder_at(above)
        except TrainFeedError as error:
            self._errors |= dict.fromkeys(there, error)


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

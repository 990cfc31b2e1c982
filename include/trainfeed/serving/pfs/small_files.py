"""Calls for many small files of a POSIX tree: read, written and named in groups."""

from __future__ import annotations

import hashlib
import os
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, Self

from trainfeed.core import faults
from trainfeed.errors import (
    ChecksumError,
    ConfigError,
    FileReplacedError,
    TrainFeedError,
    UnsuitableStoreError,
)
from trainfeed.files import os_errors
from trainfeed.serving.pfs.posix_files import (
    ParallelCalls,
    hand_over,
    name_file,
    open_plain,
    require_free,
    sync_folder_at,
)
from trainfeed.serving.pfs.tree import SMALL_BYTES, Parts, SmallFile

# --- Folders that stay open while many files in them are read or written


class OpenFolders(ExitStack):
    """Descriptors of folders, each opened once; the context manager closes them. For many threads.

    Args:
        open_folder: Returns a descriptor of a folder, open for its path.
    """

    def __init__(self, open_folder: Callable[[Parts], int]) -> None:
        super().__init__()
        self._open = open_folder
        self._fds: dict[Parts, int] = {}
        self._lock = threading.Lock()

    def at(self, parts: Parts) -> int:
        """Return the descriptor of a folder, valid until the end of the block."""
        with self._lock:
            if parts not in self._fds:
                self._fds[parts] = self._open(parts)
                self.callback(os.close, self._fds[parts])
            return self._fds[parts]


# --- Reads a small file whole, and shows that it did not change meanwhile


def read_small(fd: int, shown: str) -> bytes:
    """Return the bytes of an open plain file of at most ``SMALL_BYTES``.

    Raises:
        FileReplacedError: The file changed while it was read.
        UnsuitableStoreError: The file is larger.
        OSError: The system failed.
    """
    before = os.fstat(fd)
    if before.st_size > SMALL_BYTES:
        raise UnsuitableStoreError(
            f"{shown}: expected at most {SMALL_BYTES} bytes, got {before.st_size}; nothing was read"
        )
    # One more byte detects growth.
    data = os.pread(fd, before.st_size + 1, 0)
    after = os.fstat(fd)
    if (len(data), after.st_size, after.st_mtime_ns) != (
        before.st_size,
        before.st_size,
        before.st_mtime_ns,
    ):
        raise FileReplacedError(
            f"{shown}: expected no change during the copy, got other bytes; nothing was kept;"
            " repeat the command when its writer has ended"
        )
    return data


# --- Writes many small files in steps: all are written, then all synced, read back and named

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

    def begin(
        self,
        files: Sequence[tuple[SmallFile, str]],
        above: Callable[[Parts], int],
        calls: ParallelCalls,
    ) -> None:
        """Write the bytes of files; a file that fails is removed, and its error kept.

        Args:
            files: Files with different places, and how messages show each.
            above: Returns the descriptor of the folder that holds a file, valid until the end of
                the batch; raises ``TrainFeedError`` for a file that may not be written.
            calls: Makes the calls of each step.
        """
        self._count = len(files)

        def begin(index: int) -> None:
            file, shown = files[index]
            try:
                self._begin(index, above(file.parts), file, shown)
            except TrainFeedError as error:
                self._errors[index] = error

        calls.each(begin, range(self._count))

    def finish(self, calls: ParallelCalls) -> list[TrainFeedError | None]:
        """Sync, compare and name all files; return the error of each, or None."""
        faults.point("pfs.small_written")
        self._step(calls, _sync)
        self._step(calls, _compare)
        faults.point("pfs.small_compared")
        if not self._is_hidden:
            self._step(calls, self._name)
            faults.point("pfs.small_named")
            calls.each(self._sync_folder, {write.above for write in self._writes.values()})
        return [self._errors.get(index) for index in range(self._count)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for write in self._writes.values():
            if kind is None:
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

    def _step(self, calls: ParallelCalls, step: Callable[[_Write], None]) -> None:
        calls.each(partial(self._stepped, step), list(self._writes))

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


# --- Calls for many small files of a POSIX tree, each of which opens its folders once


class SmallCalls(ABC):
    """Small files beneath a folder of this machine, and what reaches and checks a place there."""

    # Whether the last name of a place may be a link, which is then followed.
    _follows: bool
    # Whether new files and folders get the owner of the folder that they are in.
    _hands_over: bool
    # Whether other machines hold the files, so that several calls at once take less time.
    _is_far: bool

    @abstractmethod
    def show(self, parts: Parts) -> str:
        """Return the place as people type it, for messages; see ``Tree``."""

    @abstractmethod
    def require_names(self, parts: Parts) -> None:
        """Refuse a place with a name that the tree does not allow; see ``Tree``."""

    @abstractmethod
    def _open_folder(self, parts: Parts) -> int:
        """Return a descriptor of a folder, open for its path; raises ``OSError`` too."""

    @abstractmethod
    def _require_writable(self, parts: Parts) -> None:
        """Refuse a change of a tree that is read only."""

    def _require_no_root(self, parts: Parts, verb: str) -> None:
        if not parts:
            raise ConfigError(
                f"{self.show(parts)}: the folder itself is never {verb}; nothing was changed; name"
                " something in it"
            )

    def get_small(self, files: Sequence[Parts]) -> list[bytes | TrainFeedError]:
        """Return the bytes of small files, or the error of each; see ``Tree``."""
        with OpenFolders(self._open_folder) as folders:
            return [self._small(folders, parts) for parts in files]

    def put_small(
        self, files: Sequence[SmallFile], *, replace: bool, is_hidden: bool
    ) -> list[TrainFeedError | None]:
        """Write small files, sync them and read them back; see ``Tree``."""
        with (
            OpenFolders(self._open_folder) as folders,
            SmallWrites(
                replace=replace, is_hidden=is_hidden, hands_over=self._hands_over
            ) as writes,
            # Its threads have ended before the files of a batch that failed are removed.
            ParallelCalls(len(files), is_far=self._is_far) as calls,
        ):
            above = partial(self._writable, folders, None if is_hidden else replace)
            writes.begin([(file, self.show(file.parts)) for file in files], above, calls)
            return writes.finish(calls)

    def small_digests(self, files: Sequence[Parts]) -> list[bytes | None]:
        """Return SHA-256 of each small file, None for anything else; see ``Tree``."""
        with OpenFolders(self._open_folder) as folders:
            return [self._small_digest(folders, parts) for parts in files]

    def _writable(self, folders: OpenFolders, replace: bool | None, parts: Parts) -> int:
        """Return the folder above a file that may be written; None: its name is free."""
        self.require_names(parts)
        self._require_writable(parts)
        self._require_no_root(parts, "written as a file")
        shown = self.show(parts)
        with os_errors(shown):
            above = folders.at(parts[:-1])
            if replace is not None:
                require_free(above, parts[-1], replace=replace, shown=shown)
        return above

    def _small_digest(self, folders: OpenFolders, parts: Parts) -> bytes | None:
        data = self._small(folders, parts)
        return hashlib.sha256(data).digest() if isinstance(data, bytes) else None

    def _small(self, folders: OpenFolders, parts: Parts) -> bytes | TrainFeedError:
        try:
            self.require_names(parts)
            self._require_no_root(parts, "read as a file")
            shown = self.show(parts)
            with os_errors(shown):
                above = folders.at(parts[:-1])
                fd = open_plain(above, parts[-1], follows=self._follows, shown=shown)
                try:
                    return read_small(fd, shown)
                finally:
                    os.close(fd)
        except TrainFeedError as error:
            return error

"""A file that appears when it is whole: the one way to give a file of this machine its name.

It is written under a name that no other try has, synced, named by a link or a rename, and its
folder is synced. Whatever fails on the way, the name holds what it held before.
"""

from __future__ import annotations

import io
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, cast

from trainfeed.errors import ConflictError
from trainfeed.paths._errors import os_errors
from trainfeed.paths._file_names import FILE_MODE, FilePath, unfinished_name
from trainfeed.paths._written import TargetFile, sync_folder

__all__ = ["NewFile", "UnfinishedFile", "claim_name"]


class UnfinishedFile:
    """A file under a name of its own, which gets another one once it is whole.

    What is dropped without either of ``claim`` and ``replace`` is removed, at the latest when the
    interpreter ends; only a process that is killed leaves it. As a context manager it removes what
    has no name by then.

    Args:
        path: The name that it is meant to get; errors show it.
        unfinished: What it is called before, on the same file system; None for
            ``<path>.<hex>.tmp``.
        mode: Of the file; the umask takes away from it.
        buffer_bytes: What ``file`` collects before the system is asked to take it.

    Attributes:
        file: Where to write, until the file has its name; it need not be closed.

    Raises:
        StorageError: It cannot be made.
    """

    def __init__(
        self,
        path: FilePath,
        *,
        unfinished: FilePath | None = None,
        mode: int = FILE_MODE,
        buffer_bytes: int = 0,
    ) -> None:
        self._path = Path(path)
        self._unfinished = (
            self._path.with_name(unfinished_name(self._path.name))
            if unfinished is None
            else Path(unfinished)
        )
        raw = TargetFile(self._unfinished, place=self._path, mode=mode)
        file = io.BufferedWriter(raw, buffer_bytes) if buffer_bytes else raw
        self.file: BinaryIO = cast("BinaryIO", file)
        self._drop = weakref.finalize(self, _drop, raw, self._unfinished, os.getpid())
        self._is_synced = False

    def set_mode(self, mode: int) -> None:
        """Give the file this mode, whatever the umask is; before it has its name."""
        with os_errors(self._path):
            os.fchmod(self.file.fileno(), mode)

    def sync(self) -> None:
        """Make the bytes durable; nothing may be written after it.

        Raises:
            QuotaExceededError: The disk is full.
            StorageError: Nobody knows whether they are durable. Not to be tried again: a second
                call to the system would succeed and lie.
        """
        with os_errors(self._path):
            self.file.flush()
            os.fsync(self.file.fileno())
        self._is_synced = True

    def claim(self) -> bool:
        """Give the file its name durably, unless the name is taken; then the bytes are dropped.

        Returns:
            Whether it has the name; False if something had it, whatever that is.

        Raises:
            StorageError: As for ``sync``, or the system refused. The name is as it was, or has the
                whole file; the bytes are dropped otherwise.
        """
        with self._naming():
            is_ours = claim_name(self._unfinished, self._path)
        sync_folder(self._path.parent)
        return is_ours

    def replace(self, *, is_folder_synced: bool = True) -> None:
        """Give the file its name durably, and take it from the file that has it, if any.

        Args:
            is_folder_synced: False where the caller syncs the folder, once for many files.

        Raises:
            ConflictError: A folder has the name.
            StorageError: As for ``claim``.
        """
        with self._naming():
            self._unfinished.replace(self._path)
        if is_folder_synced:
            sync_folder(self._path.parent)

    def abandon(self) -> None:
        """Drop what has no name yet; safe to call twice."""
        self._drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.abandon()

    @contextmanager
    def _naming(self) -> Iterator[None]:
        try:
            if not self._is_synced:
                self.sync()
            with os_errors(self._path):
                yield
        finally:
            self.abandon()


class NewFile(UnfinishedFile):
    """A file that gets its name when it is complete, and only if nothing has the name.

    As a context manager it commits, or abandons after an exception. Arguments are those of
    ``UnfinishedFile``.

    Raises:
        ConflictError: The name is taken.
        StorageError: The file cannot be made.
    """

    def __init__(self, path: FilePath, *, buffer_bytes: int = 0) -> None:
        with os_errors(path):
            is_taken = Path(path).exists()
        if is_taken:
            raise ConflictError(f"{path} exists; choose another name, or delete it first")
        super().__init__(path, buffer_bytes=buffer_bytes)

    def commit(self) -> None:
        """Make the bytes and their name durable.

        Raises:
            ConflictError: The name was taken meanwhile; the bytes are dropped.
            StorageError: As for ``claim``.
        """
        if not self.claim():
            raise ConflictError(
                f"{self._path} was made by another process meanwhile; the new file was dropped;"
                " choose another name, or delete it first"
            )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.commit()
        else:
            self.abandon()


def claim_name(unfinished: FilePath, path: FilePath) -> bool:
    """Give a whole file a second name that nobody has; return whether it has it.

    Args:
        unfinished: The file; it has one name.
        path: The second one, on the same file system. What has it already stays.

    Raises:
        OSError: The system refused otherwise.
    """
    try:
        # A rename would replace what another process has put there.
        Path(path).hardlink_to(unfinished)
    except FileExistsError:
        # When an answer is lost, a network client asks again and is told that the name is taken:
        # by its own first request, if our file has a second name by now.
        return Path(unfinished).lstat().st_nlink > 1
    return True


def _drop(raw: io.FileIO, unfinished: Path, pid: int) -> None:
    # Gone already after a rename; else the error on its way out says more than this one. What is
    # left has a name that housekeeping knows.
    with suppress(OSError):
        raw.close()
    # A forked child drops its copies of what its parent still writes.
    if os.getpid() == pid:
        with suppress(OSError):
            unfinished.unlink()

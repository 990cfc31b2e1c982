"""New files that get their name when they are complete; all local files are made this way.

A file is written under a unique unfinished name, synced, linked or renamed to its final name, and
then the folder is synced. After a failure at any step the final name is unchanged.
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

from trainfeed.datacenters import local_target
from trainfeed.errors import ConflictError
from trainfeed.paths._errors import os_errors
from trainfeed.paths._file_names import FILE_MODE, FilePath, unfinished_name
from trainfeed.paths._written import TargetFile, sync_folder

__all__ = ["NewFile", "UnfinishedFile", "claim_name"]


class UnfinishedFile:
    """A file with an unfinished name, which gets its final name when it is complete.

    A file that is dropped before ``claim`` or ``replace`` is removed, at the latest when the
    interpreter ends; only a killed process leaves its unfinished file. The context manager removes
    a file that has no final name at the end of the block.

    Args:
        path: The final name; errors show it.
        unfinished: The unfinished name, on the same file system; None for ``<path>.<hex>.tmp``.
        mode: Mode of the file, before the umask.
        buffer_bytes: Size of the write buffer; 0 for none.

    Attributes:
        file: The open file, valid until the file has its final name; closing it is not required.

    Raises:
        StorageError: The file cannot be made.
    """

    def __init__(
        self,
        path: FilePath,
        *,
        unfinished: FilePath | None = None,
        mode: int = FILE_MODE,
        buffer_bytes: int = 0,
    ) -> None:
        self._path = Path(local_target(path))
        self._unfinished = (
            self._path.with_name(unfinished_name(self._path.name))
            if unfinished is None
            else Path(local_target(unfinished))
        )
        raw = TargetFile(self._unfinished, place=self._path, mode=mode)
        file = io.BufferedWriter(raw, buffer_bytes) if buffer_bytes else raw
        self.file: BinaryIO = cast("BinaryIO", file)
        # The finalizer must not refer to self, which would keep it alive: it gets the parts it
        # needs. The process id keeps forked children from removing the file of their parent.
        self._drop = weakref.finalize(self, _drop, raw, self._unfinished, os.getpid())
        self._is_synced = False

    def set_mode(self, mode: int) -> None:
        """Set the mode of the file regardless of the umask; before ``claim`` or ``replace``."""
        with os_errors(self._path):
            os.fchmod(self.file.fileno(), mode)

    def sync(self) -> None:
        """Make the bytes durable; nothing may be written afterwards.

        Raises:
            QuotaExceededError: The disk is full.
            StorageError: The bytes could not be synced. Do not retry: the kernel reports a failed
                write-back once, so a second fsync would succeed although the bytes are lost.
        """
        with os_errors(self._path):
            self.file.flush()
            os.fsync(self.file.fileno())
        self._is_synced = True

    def claim(self) -> bool:
        """Give the file its final name durably, unless the name is taken; then drop the file.

        Returns:
            Whether the file has the name; False if anything else had it.

        Raises:
            StorageError: Syncing or naming failed. The final name is unchanged, or names the
                complete file; the unfinished file is removed.
        """
        with self._naming():
            is_ours = claim_name(self._unfinished, self._path)
        sync_folder(self._path.parent)
        return is_ours

    def replace(self, *, is_folder_synced: bool = True) -> None:
        """Give the file its final name durably, replacing a file that has the name.

        Args:
            is_folder_synced: Whether to sync the folder; False if the caller syncs it once for
                many files.

        Raises:
            ConflictError: A folder has the name.
            StorageError: As for ``claim``.
        """
        with self._naming():
            # A rename is atomic: readers see the old file or the complete new one.
            self._unfinished.replace(self._path)
        if is_folder_synced:
            sync_folder(self._path.parent)

    def abandon(self) -> None:
        """Remove the file unless it has its final name; may be called twice."""
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
    """A file that gets its name when it is complete, and only if the name is free.

    The context manager commits at the end of the block, and abandons the file after an exception.
    Arguments are those of ``UnfinishedFile``.

    Raises:
        ConflictError: The name is taken.
        StorageError: The file cannot be made.
    """

    def __init__(self, path: FilePath, *, buffer_bytes: int = 0) -> None:
        path = local_target(path)
        with os_errors(path):
            # A check before any byte is written; ``claim`` refuses a name that is taken later.
            is_taken = Path(path).exists()
        if is_taken:
            raise ConflictError(f"{path} exists; choose another name, or delete it first")
        super().__init__(path, buffer_bytes=buffer_bytes)

    def commit(self) -> None:
        """Make the bytes and their name durable.

        Raises:
            ConflictError: The name was taken meanwhile; the new file is removed.
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
    """Give a complete file a second name by a hard link; return whether the file has it now.

    Args:
        unfinished: The file, under its only name.
        path: The second name, on the same file system. A file that already has it is kept.

    Raises:
        OSError: The link failed for another reason than a taken name.
    """
    try:
        # A link fails if the name is taken; a rename would replace the file of another process.
        Path(local_target(path)).hardlink_to(unfinished)
    except FileExistsError:
        # A network file system repeats a request whose answer was lost, and then reports the name
        # as taken by its own first request. A link count of 2 shows that this happened.
        return Path(unfinished).lstat().st_nlink > 1
    return True


def _drop(raw: io.FileIO, unfinished: Path, pid: int) -> None:
    # Errors are ignored: after a rename the file is gone, and otherwise the first error says more.
    # The housekeeping recognizes a remaining file by its name.
    with suppress(OSError):
        raw.close()
    # A forked child closes its copy of the descriptor, but the parent still writes the file.
    if os.getpid() == pid:
        with suppress(OSError):
            unfinished.unlink()

"""A file that appears when it is whole, and what it is called before."""

from __future__ import annotations

import os
import re
import uuid
import weakref
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

from trainfeed.errors import ConflictError, StorageError
from trainfeed.paths._errors import os_errors
from trainfeed.paths._file_modes import new_file
from trainfeed.paths._file_names import FilePath, path_of

__all__ = ["NewFile", "claim_name", "is_unfinished", "unfinished_name", "write_all"]

# With hyphens it was written by earlier versions.
_UNFINISHED: Final = re.compile(r".+\.[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}\.tmp")


class NewFile:
    """A file that gets its name when it is complete, and only if nobody has the name.

    What is dropped without either of ``commit`` and ``abandon`` is abandoned, at the latest when
    the interpreter ends; only a process that is killed leaves ``<name>.<hex>.tmp``.

    As a context manager it commits, or abandons after an exception.

    Attributes:
        file: Where to write, until ``commit`` or ``abandon``; unbuffered.

    Raises:
        ConflictError: Somebody has the name.
    """

    def __init__(self, path: FilePath) -> None:
        self._path = Path(path)
        self._partial = self._path.with_name(unfinished_name(self._path.name))
        if self._path.exists():
            raise ConflictError(f"{self._path} exists; choose another name, or delete it first")
        with os_errors(str(self._partial)):
            self.file: BinaryIO = new_file(self._partial, buffering=0)
        self._drop = weakref.finalize(self, _drop, self.file, self._partial, os.getpid())

    def commit(self) -> None:
        """Make the bytes durable and give them their name; that lasts when the folder is synced.

        Raises:
            ConflictError: The name was taken meanwhile; the bytes are dropped.
            StorageError: Nobody knows whether they are durable; they are dropped.
        """
        try:
            with os_errors(str(self._path)):
                os.fsync(self.file.fileno())
                is_ours = claim_name(self._partial, self._path)
        finally:
            self.abandon()
        if not is_ours:
            raise ConflictError(
                f"{self._path} exists by now; the new bytes were dropped; choose another name, or"
                " delete it first"
            )

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
        if error is None:
            self.commit()
        else:
            self.abandon()


def unfinished_name(name: str) -> str:
    """Return what to call a file until it is whole and gets ``name``; no other try has it."""
    return f"{name}.{uuid.uuid4().hex}.tmp"


def is_unfinished(name: str) -> bool:
    """Return whether a file that has this name never became whole, or is still being written."""
    return _UNFINISHED.fullmatch(name) is not None


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


def _drop(file: BinaryIO, partial: Path, pid: int) -> None:
    try:
        file.close()
    finally:
        # A forked child drops its copies of what its parent still writes.
        if os.getpid() == pid:
            partial.unlink(missing_ok=True)


def write_all(file: BinaryIO, data: bytes | memoryview) -> None:
    """Write all of ``data``, also to a raw file, which may take less at once.

    Raises:
        QuotaExceededError: The disk is full.
        StorageError: The file refused the bytes.
    """
    rest = memoryview(data)
    path = path_of(file)
    with os_errors(path):
        while rest:
            num_bytes = file.write(rest)
            if not num_bytes:
                raise StorageError(f"{path or 'an unnamed file'} takes no more bytes")
            rest = rest[num_bytes:]

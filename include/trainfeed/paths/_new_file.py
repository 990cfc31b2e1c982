"""A file that appears when it is whole."""

from __future__ import annotations

import os
import uuid
import weakref
from pathlib import Path
from typing import BinaryIO

from trainfeed.errors import ConflictError, StorageError
from trainfeed.paths._errors import os_errors
from trainfeed.paths._file_modes import new_file
from trainfeed.paths._file_names import FilePath, path_of

__all__ = ["NewFile", "write_all"]


class NewFile:
    """A file that gets its name when it is complete, and only if nobody has the name.

    What is dropped without either of ``commit`` and ``abandon`` is abandoned, at the latest when
    the interpreter ends; only a process that is killed leaves ``<name>.<hex>.tmp``.

    Attributes:
        file: Where to write, until ``commit`` or ``abandon``; unbuffered.

    Raises:
        ConflictError: Somebody has the name.
    """

    def __init__(self, path: FilePath) -> None:
        self._path = Path(path)
        self._partial = self._path.with_name(f"{self._path.name}.{uuid.uuid4().hex}.tmp")
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
                # A rename would replace what somebody else has put there.
                os.link(self._partial, self._path)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Drop what has no name yet; safe to call twice."""
        self._drop()


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

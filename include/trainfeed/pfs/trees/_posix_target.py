"""A file of a POSIX tree that is written under an unfinished name, and named when it is whole.

The unfinished file is locked while it is open, so two copies of one source to one name do not mix.
The kernel, or the servers of CephFS, drop the lock of a process that dies.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Sequence
from contextlib import suppress

from trainfeed import faults
from trainfeed.errors import (
    ChecksumError,
    CommitUnknownError,
    ConflictError,
    FormatError,
    StorageError,
    TrainFeedError,
)
from trainfeed.paths import os_errors, storage_error
from trainfeed.pfs.trees._chunk_hashing import chunk_digests
from trainfeed.pfs.trees._digest_kind import DigestKind
from trainfeed.pfs.trees._handed_over import hand_over
from trainfeed.pfs.trees._naming import name_file, sync_folder_at
from trainfeed.pfs.trees._tree_values import SourceState, chunk_count, unfinished_file_name

__all__ = ["PosixTarget"]

_MODE = 0o644
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class PosixTarget:
    """An unfinished file beside its target.

    Args:
        above: Descriptor of the folder that holds both, which this object closes.
        name: Name of the target.
        state: State of the source.
        replace: Whether a file that has the name is replaced.
        hands_over: Whether the file gets the owner of its folder.
        shown: Place of the target, for messages.

    Raises:
        ConflictError: Another copy of this source to this name runs.
        StorageError: The system refused or failed.
    """

    def __init__(
        self,
        above: int,
        name: str,
        state: SourceState,
        *,
        replace: bool,
        hands_over: bool,
        shown: str,
    ) -> None:
        self._name = name
        self._state = state
        self._replace = replace
        self._shown = shown
        self._unfinished = unfinished_file_name(name, state)
        # Whether another name than the unfinished one may be that of this file.
        self._is_named = False
        self._fds = [above]
        try:
            self._fds.append(_locked(above, self._unfinished, shown))
            if hands_over:
                with os_errors(shown):
                    hand_over(above, self._fds[1])
        except BaseException:
            self.close()
            raise

    def digests(self, kind: DigestKind = DigestKind.SHA256) -> tuple[bytes, ...]:
        """Return the digests of the chunks that an earlier try has left, read from the files."""
        fd = self._fds[1]
        with os_errors(self._shown):
            num_bytes = min(os.fstat(fd).st_size, self._state.num_bytes)
            return chunk_digests(fd, num_bytes, self._shown, kind)

    def write(self, offset: int, data: memoryview) -> None:
        """Write all of ``data`` at ``offset``; raises as ``Target.write`` says."""
        self._require_unfinished()
        with os_errors(self._shown):
            while data:
                count = os.pwrite(self._fds[1], data, offset)
                if not count:
                    raise StorageError(f"{self._shown}: the file takes no more bytes")
                data, offset = data[count:], offset + count

    def commit(self, chunks: Sequence[bytes], kind: DigestKind = DigestKind.SHA256) -> None:
        """Sync the file, read it back, compare it, and give it its name.

        Raises:
            ChecksumError: The file does not have these chunks; it stays unfinished.
            FormatError: The number of chunks is not that of the source; the file stays unfinished.
            ConflictError: The name is taken, and is not to be replaced.
            CommitUnknownError: The file may have its name; it takes no more bytes.
            StorageError: The system refused or failed.
        """
        self._require_unfinished()
        fd = self._fds[1]
        self._require_whole(fd, len(chunks))
        with os_errors(self._shown):
            # A longer file is one that another program has changed.
            os.ftruncate(fd, self._state.num_bytes)
            faults.point("pfs.before_sync")
            os.fsync(fd)
        faults.point("pfs.after_sync")
        self._require(fd, tuple(chunks), kind)
        faults.point("pfs.before_name")
        self._give_name()
        faults.point("pfs.after_name")

    def close(self) -> None:
        """Close the file, which drops its lock; may be called twice."""
        while self._fds:
            os.close(self._fds.pop())

    def _give_name(self) -> None:
        above, fd = self._fds
        self._is_named = True
        try:
            name_file(above, self._unfinished, self._name, replace=self._replace, shown=self._shown)
            with os_errors(self._shown):
                sync_folder_at(above)
        except TrainFeedError as error:
            with os_errors(self._shown):
                has_name = _has_name(fd, above, self._unfinished)
                self._is_named = not has_name or os.fstat(fd).st_nlink != 1
            if not self._is_named:
                raise
            raise CommitUnknownError(
                f"{error}; expected the folder to confirm the name of the complete file, which may"
                " be lost if the storage fails now; nothing more is written to the file; repeat"
                " the command, which compares what has the name"
            ) from error

    def _require_unfinished(self) -> None:
        if self._is_named:
            raise ConflictError(
                f"{self._shown}: expected an unfinished file, this one may have its final name;"
                " nothing was written; repeat the command, which compares what has the name"
            )

    def _require_whole(self, fd: int, count: int) -> None:
        """Refuse what cannot be the whole file, before any of its bytes is read."""
        expected = chunk_count(self._state.num_bytes)
        if count != expected:
            raise FormatError(
                f"{self._shown}: expected the digests of {expected} chunks, got {count}; no name"
                " was given to the copy; repeat the command"
            )
        with os_errors(self._shown):
            num_bytes = os.fstat(fd).st_size
        if num_bytes < self._state.num_bytes:
            raise ChecksumError(
                f"{self._shown}: expected a file of {self._state.num_bytes} bytes, read back"
                f" {num_bytes}; no name was given to the copy; repeat the command, which sends what"
                " is missing"
            )

    def _require(self, fd: int, chunks: tuple[bytes, ...], kind: DigestKind) -> None:
        with os_errors(self._shown):
            # Clean pages leave the cache, so the reads below are answered by the file system.
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            found = chunk_digests(fd, os.fstat(fd).st_size, self._shown, kind)
        if found != chunks:
            pairs = enumerate(zip(found, chunks, strict=False))
            differing = [index for index, (one, other) in pairs if one != other]
            raise ChecksumError(
                f"{self._shown}: expected {len(chunks)} chunks as they were written, read back"
                f" {len(found)} of which {len(differing)} differ, first {differing[:1]}; no name"
                " was given to the copy; repeat the command, which sends these chunks again"
            )


def _locked(above: int, name: str, shown: str) -> int:
    """Open an unfinished file, made if it is missing, and lock it."""
    while True:
        with os_errors(shown):
            fd = os.open(name, _FLAGS, _MODE, dir_fd=above)
        try:
            _lock(fd, shown)
            if _has_name(fd, above, name):
                if os.fstat(fd).st_nlink == 1:
                    return fd
                # Killed between its two names: what has the final name must not be written again.
                os.unlink(name, dir_fd=above)
        except BaseException:
            os.close(fd)
            raise
        # Another copy has finished between the two calls: its file has the final name now.
        os.close(fd)


def _lock(fd: int, shown: str) -> None:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise FormatError("expected a plain unfinished file, got another kind", path=shown)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            reason = f"the file cannot be locked: {error.strerror}"
            raise storage_error(StorageError, shown, reason) from error
        raise ConflictError(
            f"{shown}: another copy of the same source to this name runs; nothing was changed;"
            " wait until that copy has ended"
        ) from error


def _has_name(fd: int, above: int, name: str) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(fd), os.stat(name, dir_fd=above, follow_symlinks=False))
    return False

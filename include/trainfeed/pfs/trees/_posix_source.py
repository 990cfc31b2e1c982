"""A file of a POSIX tree that is read, and compared at the end with its state at the beginning."""

from __future__ import annotations

import os
from contextlib import suppress

from trainfeed.errors import FileReplacedError, NotFoundError
from trainfeed.paths import os_errors
from trainfeed.pfs.trees._chunk_hashing import read_fully
from trainfeed.pfs.trees._tree_values import SourceState

__all__ = ["PosixSource"]


class PosixSource:
    """An open plain file.

    Args:
        fd: Its descriptor, which this object closes.
        above: Descriptor of the folder that holds it, which this object closes.
        name: Its name there.
        identity: Identity of its place, for ``SourceState``.
        shown: Its place, for messages.
        follow: Whether ``name`` may be a link.
    """

    def __init__(
        self, fd: int, above: int, name: str, *, identity: str, shown: str, follow: bool
    ) -> None:
        self._fds = [fd, above]
        self._name = name
        self._shown = shown
        self._follow = follow
        self._found = os.fstat(fd)
        self.state = SourceState(self._found.st_size, self._found.st_mtime_ns, identity)

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Fill ``buffer`` from ``offset``; return the bytes read, fewer only at the end."""
        with os_errors(self._shown):
            return read_fully(self._fds[0], offset, buffer)

    def require_same(self) -> None:
        """Compare the file, and what has its name, with the state at its opening.

        Raises:
            FileReplacedError: The file was changed, replaced or removed since.
        """
        with os_errors(self._shown):
            now = os.fstat(self._fds[0])
        named = None
        with suppress(NotFoundError), os_errors(self._shown):
            named = os.stat(self._name, dir_fd=self._fds[1], follow_symlinks=self._follow)
        if _state(now) != _state(self._found) or named is None or _state(named) != _state(now):
            raise FileReplacedError(
                f"{self._shown}: expected no change during the copy, got {_what(now, named)};"
                " no name was given to the copy; repeat the command when its writer has ended"
            )

    def close(self) -> None:
        """Close the file; may be called twice."""
        while self._fds:
            os.close(self._fds.pop())


def _state(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _what(now: os.stat_result, named: os.stat_result | None) -> str:
    if named is None:
        return "a removed file"
    if (named.st_dev, named.st_ino) != (now.st_dev, now.st_ino):
        return "another file under its name"
    return "other bytes"

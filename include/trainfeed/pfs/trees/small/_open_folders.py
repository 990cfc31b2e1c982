"""Folders that stay open while many files in them are read or written."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from trainfeed.pfs.trees._tree_values import Parts

__all__ = ["OpenFolders"]


class OpenFolders:
    """Descriptors of folders, each opened once; the context manager closes them. For many threads.

    Args:
        open_folder: Returns a descriptor of a folder, open for its path.
    """

    def __init__(self, open_folder: Callable[[Parts], int]) -> None:
        self._open = open_folder
        self._fds: dict[Parts, int] = {}
        self._lock = threading.Lock()

    def at(self, parts: Parts) -> int:
        """Return the descriptor of a folder, valid until the end of the block."""
        with self._lock:
            if parts not in self._fds:
                self._fds[parts] = self._open(parts)
            return self._fds[parts]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        while self._fds:
            os.close(self._fds.popitem()[1])

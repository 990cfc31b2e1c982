"""Calls for many small files of a POSIX tree, each of which opens its folders once."""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial

from trainfeed.errors import ConfigError, TrainFeedError
from trainfeed.paths import os_errors
from trainfeed.pfs.trees._plain_opening import open_plain, require_free
from trainfeed.pfs.trees._tree_values import Parts, SmallFile
from trainfeed.pfs.trees.small._open_folders import OpenFolders
from trainfeed.pfs.trees.small._small_reads import read_small
from trainfeed.pfs.trees.small._small_writes import SmallWrites

__all__ = ["SmallCalls"]


class SmallCalls(ABC):
    """Small files beneath a folder of this machine, and what reaches and checks a place there."""

    # Whether the last name of a place may be a link, which is then followed.
    _follows: bool
    # Whether new files and folders get the owner of the folder that they are in.
    _hands_over: bool

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
        ):
            above = partial(self._writable, folders, None if is_hidden else replace)
            writes.begin([(file, self.show(file.parts)) for file in files], above)
            return writes.finish()

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

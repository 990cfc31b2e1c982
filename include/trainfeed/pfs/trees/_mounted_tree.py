"""An area of shared storage that is mounted here, confined beneath its folder.

Each folder on the way is opened from the descriptor of the one above, and links are refused at each
step, so no exchange of a folder for a link leads out of the area, not even between two calls.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from trainfeed.datacenters import PfsPath
from trainfeed.errors import AccessDeniedError
from trainfeed.pfs.trees._area_names import address_in_area, require_area_names, shown_in_area
from trainfeed.pfs.trees._posix_tree import PosixTree
from trainfeed.pfs.trees._tree_values import Parts

__all__ = ["MountedTree"]

_PATH_ONLY: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


class MountedTree(PosixTree):
    """A home or the public area beneath a folder of this machine.

    Args:
        root: The folder, which may be a link itself.
        area: The path that users have for it; its parts are empty.
        read_only: Whether every change is refused.
        is_current: Whether ``pfs://`` paths are those of this data centre, so that messages may
            leave it out.
    """

    _follows = False
    _hands_over = True

    def __init__(
        self, root: Path, area: PfsPath, *, read_only: bool = False, is_current: bool = True
    ) -> None:
        self._root = root
        self._area = area
        self._read_only = read_only
        self._is_current = is_current

    def show(self, parts: Parts) -> str:
        """Return the path of a place, as ``pfs://…`` in the current data centre."""
        return shown_in_area(self._area, parts, is_current=self._is_current)

    def require_names(self, parts: Parts) -> None:
        """Refuse names that shared storage does not allow; see ``Tree``."""
        require_area_names(self._area, parts, is_current=self._is_current)

    def address(self, parts: Parts) -> str:
        """Return the complete path of a place, which a server of its data centre has too."""
        return address_in_area(self._area, parts)

    def _require_writable(self, parts: Parts) -> None:
        if self._read_only:
            raise AccessDeniedError(
                f"{self.show(parts)}: expected a place that may be changed, got one that is read"
                " only; nothing was changed; choose a place below pfs://home"
            )

    def _open_folder(self, parts: Parts) -> int:
        # Names are checked before the first of them is opened.
        self.require_names(parts)
        shown = self.show(parts)
        fd = self._open_root()
        for name in parts:
            above = fd
            try:
                fd = self._entered(above, name, shown)
            finally:
                os.close(above)
        return fd

    def _open_root(self) -> int:
        return os.open(self._root, _PATH_ONLY)

    def _entered(self, above: int, name: str, shown: str) -> int:
        try:
            return os.open(name, _PATH_ONLY | os.O_NOFOLLOW, dir_fd=above)
        except NotADirectoryError:
            found = os.stat(name, dir_fd=above, follow_symlinks=False)
            if not stat.S_ISLNK(found.st_mode):
                raise
            raise AccessDeniedError(
                f"{shown}: {name!r} is a link, and links are not followed on shared storage;"
                " nothing was read or written; name the folder itself"
            ) from None

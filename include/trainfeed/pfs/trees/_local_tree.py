"""The files of this machine, as ``cp`` sees them: links are followed, and nothing is confined."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from trainfeed.pfs.trees._posix_tree import PosixTree
from trainfeed.pfs.trees._tree_protocol import Target
from trainfeed.pfs.trees._tree_values import Parts, SourceState

__all__ = ["LocalTree"]

_PATH_ONLY: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


class LocalTree(PosixTree):
    """Files of this machine beneath a folder, which ``..`` and links may leave.

    Links on the way and at the end of a place are followed, as ``cp`` does; ``entries`` shows them
    as links.

    Args:
        base: Folder that places begin at; None for the working folder.
    """

    _follows = True
    _hands_over = False

    def __init__(self, base: Path | None = None) -> None:
        self._base = Path() if base is None else base

    def show(self, parts: Parts) -> str:
        """Return the path of a place."""
        return str(self._base.joinpath(*parts))

    def require_names(self, parts: Parts) -> None:
        """Allow every name: the file system decides."""

    def address(self, parts: Parts) -> str:
        """Return the absolute path of a place, links resolved."""
        return str(self._base.joinpath(*parts).resolve())

    def open_target(self, parts: Parts, state: SourceState, *, replace: bool) -> Target:
        """Open the unfinished file of a copy beside what a link points to; see ``Tree``."""
        path = self._base.joinpath(*parts)
        if parts and path.is_symlink():
            # As with cp, the file that the link points to is replaced, and the link stays.
            return LocalTree(Path("/")).open_target(
                path.resolve().parts[1:], state, replace=replace
            )
        return super().open_target(parts, state, replace=replace)

    def sync_names_of(self, files: Sequence[Parts]) -> None:
        """Make the names of files, or of the files that links point to, durable; see ``Tree``."""
        paths = {self._base.joinpath(*parts).resolve() for parts in files}
        PosixTree.sync_names_of(LocalTree(Path("/")), [path.parts[1:] for path in paths])

    def _require_writable(self, parts: Parts) -> None:
        """Allow every change: the account of the process decides."""

    def _open_folder(self, parts: Parts) -> int:
        return os.open(self.show(parts), _PATH_ONLY)

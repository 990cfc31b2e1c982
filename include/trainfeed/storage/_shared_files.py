"""``pfs://``: files of shared storage on a mount of this machine.

Every call asks the resolver of paths again, so a link that leads out of the area is refused
wherever it lies, and a write to the public area before any byte.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO, ClassVar

from trainfeed.datacenters import local_source, local_target
from trainfeed.errors import ConfigError
from trainfeed.storage._base import FileInfo, FileInfos, Wanted, refuse_root
from trainfeed.storage._local_files import LocalFileSystem

__all__ = ["SharedFileSystem"]


@dataclass(frozen=True)
class SharedFileSystem(LocalFileSystem):
    """One area of a data centre; see ``FileSystem`` for the contract of the methods.

    Attributes:
        area: ``pfs://home`` or ``pfs://public``.
        folder: Folder of this machine on which the area is mounted; paths begin with it.
    """

    area: str
    folder: str
    scheme: ClassVar[str] = "pfs"

    def uri(self, path: str) -> str:
        """Return the short path, which is read back wherever the area is mounted."""
        return f"{self.area}{path.removeprefix(self.folder)}"

    def open_read(self, path: str) -> BinaryIO:
        """Open a file for reading."""
        return super().open_read(self._source(path))

    def open_write(self, path: str) -> BinaryIO:
        """Create a file; ``close`` syncs it and its folder."""
        return super().open_write(self._target(path))

    def stat(self, path: str) -> FileInfo:
        """Return facts about a file or folder."""
        return super().stat(self._source(path))

    def list(self, path: str, wanted: Wanted | None = None, *, broken: bool = False) -> FileInfos:
        """Return the entries of a folder."""
        return super().list(self._source(path), wanted, broken=broken)

    def make_dir(self, path: str) -> None:
        """Make a folder and its missing parents."""
        super().make_dir(self._target(path))

    def rename(self, source: str, target: str) -> None:
        """Rename a file or folder to a free name."""
        super().rename(self._target(source), self._target(target))

    def replace(self, source: str, target: str) -> None:
        """Rename a file, replacing the file that has the name."""
        super().replace(self._target(source), self._target(target))

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """Delete a file or folder, never the area itself."""
        refuse_root(path)
        refuse_root(self._checked(path).removeprefix(self.area))
        super().delete(self._target(path), recursive=recursive)

    def write_atomic(self, path: str, write: Callable[[BinaryIO], None]) -> None:
        """Write a file that appears when it is complete."""
        super().write_atomic(self._target(path), write)

    def create_exclusive(self, path: str, data: bytes) -> bool:
        """Make a file with this content, unless the name is taken."""
        return super().create_exclusive(self._target(path), data)

    def _source(self, path: str) -> str:
        return local_source(self._checked(path))

    def _target(self, path: str) -> str:
        return local_target(self._checked(path))

    def _checked(self, path: str) -> str:
        if path != self.folder and not path.startswith(f"{self.folder}/"):
            raise ConfigError(
                f"expected a path below {self.folder}, which is {self.area}, got {path}; nothing"
                " was read or written"
            )
        return self.uri(path)

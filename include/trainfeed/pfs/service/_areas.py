"""The areas that a caller reaches: the own home, and the public files to read."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from trainfeed.datacenters import PfsPath
from trainfeed.errors import AccessDeniedError, ConfigError, NotFoundError
from trainfeed.pfs.service._mounted_areas import ServedTree, StorageDevices
from trainfeed.pfs.trees import Parts, Tree

__all__ = ["Areas", "Place"]


@dataclass(frozen=True)
class Place:
    """A path of a request, and the tree that confines it.

    Attributes:
        path: The path.
        tree: The area of the path; the tree refuses links and, in the public area, every change.
    """

    path: PfsPath
    tree: Tree = field(compare=False)

    @property
    def parts(self) -> Parts:
        """Names below the root of the tree."""
        return self.path.parts


class Areas:
    """The homes and the public folder of one data centre.

    Args:
        datacenter: Name of the data centre.
        home: Folder whose folders are the homes.
        public: Folder of the public files.
        is_local: Whether plain folders of this machine are the storage.

    Raises:
        ConfigError: A folder is not there, or its mount is away.
    """

    def __init__(
        self, datacenter: str, home: Path, public: Path, *, is_local: bool = False
    ) -> None:
        self.datacenter = datacenter
        self._home = home
        self._public = public
        self._devices = StorageDevices(is_local=is_local)
        for folder in (home, public):
            if not self._devices.has(folder):
                got = "a plain folder" if folder.is_dir() else "none"
                raise ConfigError(
                    f"expected the folder {folder} on a mount of shared storage, got {got}; nothing"
                    " was started; mount it, or give --local if plain folders of this machine are"
                    " the storage"
                )

    def are_there(self) -> bool:
        """Return whether both folders are on the storage now; a slow look."""
        return all(self._devices.has(folder) for folder in (self._home, self._public))

    def place(self, text: str, user: str) -> Place:
        """Return the place that a text of a request names.

        Args:
            text: The complete path, as it came.
            user: Name of the caller.

        Raises:
            ConfigError: The text is no complete path, or has ``..``, a control character or a name
                above 255 bytes.
            NotFoundError: The path is in another data centre.
            AccessDeniedError: The path is in the home of another user.
        """
        if not text.startswith("/pfs/"):
            raise ConfigError("expected a path that begins with /pfs/; nothing was read or written")
        path = PfsPath.parse(text)
        if path.datacenter != self.datacenter:
            raise NotFoundError(
                f"expected a path in the data centre {self.datacenter}, which this server serves,"
                " got another one; nothing was read or written; correct the path"
            )
        if path.area == "public":
            return Place(path, self._tree(PfsPath(self.datacenter, "public", None, ())))
        if path.user != user:
            raise AccessDeniedError(
                f"expected a path in the home of {user}, whose token came, got another user's;"
                " nothing was read or written; ask for a copy in the public folder"
            )
        return Place(path, self._tree(PfsPath(self.datacenter, "home", user, ())))

    def _tree(self, area: PfsPath) -> ServedTree:
        # Trees have no state, so that a home that is made, renamed or removed is noticed at once.
        if area.user is None:
            return ServedTree(self._public, area, self._devices, read_only=True)
        return ServedTree(self._home / area.user, area, self._devices)

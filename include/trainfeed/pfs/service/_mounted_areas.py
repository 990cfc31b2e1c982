"""Trees of the server's areas, which refuse every call while their mount is away.

The folder that a mount is on stays when the mount goes. A file that were written there then would
lie on the disk of the server, and be hidden when the mount comes back.
"""

from __future__ import annotations

import os
from pathlib import Path

from trainfeed.datacenters import PfsPath, is_available
from trainfeed.errors import StorageError
from trainfeed.pfs.trees import MountedTree

__all__ = ["ServedTree", "StorageDevices"]


class StorageDevices:
    """Devices of which it is known that they are those of shared storage. For many threads.

    Args:
        is_local: Whether plain folders of this machine are the storage.
    """

    def __init__(self, *, is_local: bool) -> None:
        self._is_local = is_local
        self._known: set[int] = set()

    def has(self, folder: Path) -> bool:
        """Return whether the files of an area are in a folder now; a slow look."""
        return is_available(folder, is_local=self._is_local)

    def has_open(self, fd: int, folder: Path) -> bool:
        """Return whether an open folder, which was just opened by its path, is of the storage."""
        device = os.fstat(fd).st_dev
        # A mount that comes back may have another device.
        if device not in self._known and self.has(folder):
            self._known.add(device)
        return device in self._known


class ServedTree(MountedTree):
    """An area on the storage of the server.

    Args:
        root: Folder of the area.
        area: The path that users have for it.
        devices: Known devices of the storage.
        read_only: Whether every change is refused.
    """

    def __init__(
        self, root: Path, area: PfsPath, devices: StorageDevices, *, read_only: bool = False
    ) -> None:
        # The server does not know which data centre is the current one of the user, so its messages
        # have complete paths.
        super().__init__(root, area, read_only=read_only, is_current=False)
        self._devices = devices

    def _open_root(self) -> int:
        fd = super()._open_root()
        if self._devices.has_open(fd, self._root):
            return fd
        os.close(fd)
        raise StorageError(
            f"{self.show(())}: the shared storage is not mounted on the server; nothing was read or"
            " written; try again later, or tell who runs the server"
        )

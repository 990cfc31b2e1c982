"""Shared storage as an administrator sees it: the cluster, its mounted file system, the layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainfeed.errors import ConfigError, StorageError, UnsuitableStoreError
from trainfeed.paths import os_errors
from trainfeed.pfs.users._ceph_program import CephProgram
from trainfeed.pfs.users._folder_attributes import cluster_id
from trainfeed.pfs.users._shared_layout import Layout

__all__ = ["SharedStorage", "open_shared_storage"]


@dataclass(frozen=True)
class SharedStorage:
    """One data centre on one CephFS, with an administrator's rights.

    Attributes:
        ceph: The program that talks to the cluster.
        mount: Folder on which the root of the file system is mounted.
        layout: Paths and namespaces.
        ranks: Numbers of the metadata servers that serve the file system.
    """

    ceph: CephProgram
    mount: Path
    layout: Layout
    ranks: tuple[int, ...]

    def folder(self, path: str) -> Path:
        """Return the folder of this machine for a path inside the file system."""
        return self.mount / path.removeprefix("/")

    def mds(self, rank: int) -> str:
        """Return the name of a metadata server for ``ceph tell``."""
        return f"mds.{self.layout.file_system}:{rank}"

    def require_path(self, path: str) -> None:
        """Compare the path of a mounted folder with the one that the metadata servers know.

        Raises:
            UnsuitableStoreError: The mount does not begin at the root of the file system, so caps
                for the path would give access to another folder.
            StorageError: No metadata server knows the folder.
        """
        folder = self.folder(path)
        with os_errors(folder):
            inode = folder.stat().st_ino
        for rank in self.ranks:
            found = self.ceph.json_or_none("tell", self.mds(rank), "dump", "inode", str(inode))
            if found is not None:
                return self._compare(path, found["path"])
        raise StorageError(f"no metadata server knows {folder}; run the same command again")

    def _compare(self, path: str, found: str) -> None:
        if found != path:
            raise UnsuitableStoreError(
                f"expected the root of the file system mounted at {self.mount}, got a folder below"
                f" it: {self.folder(path)} is {found} there; no key was made or changed; mount the"
                " root, name the mount by --mount, and remove the empty folder"
            )


def open_shared_storage(
    ceph: CephProgram, mount: Path, datacenter: str, file_system: str | None = None
) -> SharedStorage:
    """Return shared storage after a comparison of the mount with the cluster.

    Args:
        ceph: The program that talks to the cluster.
        mount: Folder on which the root of the file system is mounted with full rights.
        datacenter: Name of the data centre.
        file_system: Name of the CephFS; None if the cluster has one only.

    Raises:
        ConfigError: The data centre's name is wrong, or the file system is not named clearly.
        UnsuitableStoreError: The mount is no CephFS, or one of another cluster.
        StorageError: The cluster did not answer.
    """
    maps = {each["mdsmap"]["fs_name"]: each["mdsmap"] for each in _file_systems(ceph)}
    name = _chosen(maps, file_system)
    mounted, expected = cluster_id(mount), ceph.run("fsid").strip()
    if mounted != expected:
        raise UnsuitableStoreError(
            f"expected a file system of the cluster {expected} at {mount}, got one of {mounted};"
            " nothing was changed; name the right mount by --mount, or its cluster by --conf"
        )
    layout = Layout(name, datacenter)
    _ = layout.public  # raises for a wrong name of the data centre
    return SharedStorage(ceph, mount, layout, tuple(maps[name]["in"]))


def _file_systems(ceph: CephProgram) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = ceph.json("fs", "dump")["filesystems"]
    return found


def _chosen(maps: Mapping[str, object], wanted: str | None) -> str:
    names = ", ".join(sorted(maps)) or "none"
    if wanted is None and len(maps) == 1:
        return next(iter(maps))
    if wanted is None or wanted not in maps:
        raise ConfigError(
            f"expected one of the file systems of the cluster ({names}), got {wanted or 'none'};"
            " nothing was changed; name one by --file-system"
        )
    return wanted

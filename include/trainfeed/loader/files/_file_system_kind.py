"""Which file system a path is on: what is right on a local disk is wrong on a network."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

__all__ = ["file_system_type", "is_network", "object_bytes"]

_MOUNTS: Final = Path("/proc/self/mountinfo")
_NETWORK: Final = frozenset(
    {
        "9p", "afs", "beegfs", "ceph", "cifs", "gfs2", "glusterfs", "gpfs", "lustre", "nfs",
        "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb3", "smbfs", "virtiofs", "wekafs",
    }
)  # fmt: skip
# What CephFS cuts files into unless told otherwise, and how it says for a file.
_CEPH_OBJECT_BYTES: Final = 4 << 20
_CEPH_OBJECT_SIZE: Final = "ceph.file.layout.object_size"


def file_system_type(path: str | os.PathLike[str]) -> str:
    """Return the type of the file system that holds ``path``, as ``fuse.ceph-fuse``; "" unknown."""
    real = os.path.realpath(path)
    best, kind = "", ""
    # Later lines lie over earlier ones.
    for mount_point, mounted in _mounts():
        if _is_below(real, mount_point) and len(mount_point) >= len(best):
            best, kind = mount_point, mounted
    return kind


@lru_cache(maxsize=256)
def is_network(folder: str) -> bool:
    """Return whether a folder's files may live elsewhere. What FUSE mounts is taken for that."""
    kind = file_system_type(folder)
    return kind in _NETWORK or kind.startswith("fuse")


def object_bytes(path: str, fd: int) -> int | None:
    """Return the size of the objects that a file consists of; None where it is one piece.

    Args:
        path: The file, which tells the file system.
        fd: The same file, open.
    """
    if not _is_ceph(str(Path(path).parent)):
        return None
    try:
        text = os.getxattr(fd, _CEPH_OBJECT_SIZE)
    except OSError:
        return _CEPH_OBJECT_BYTES
    return int(text) if text.isdigit() and int(text) else _CEPH_OBJECT_BYTES


@lru_cache(maxsize=256)
def _is_ceph(folder: str) -> bool:
    kind = file_system_type(folder)
    return kind == "ceph" or kind.startswith("fuse.ceph")


def _is_below(path: str, mount_point: str) -> bool:
    return path == mount_point or path.startswith(mount_point.rstrip("/") + "/")


def _mounts() -> Iterator[tuple[str, str]]:
    """Yield mount point and type, in the order of mounting."""
    try:
        lines = _MOUNTS.read_bytes().decode("utf-8", "surrogateescape").splitlines()
    except OSError:
        return
    for line in lines:
        before, _, after = line.partition(" - ")
        if after:
            yield _unescape(before.split(" ")[4]), after.split(" ")[0]


def _unescape(text: str) -> str:
    """Undo the octal escapes of blanks, tabs, line ends and backslashes."""
    for octal in ("040", "011", "012", "134"):
        text = text.replace(f"\\{octal}", chr(int(octal, 8)))
    return text

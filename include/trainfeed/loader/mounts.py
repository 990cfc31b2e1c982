"""Which file system holds a folder, as the mounts of this process say: local, network, CephFS."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

_MOUNTS: Final = Path("/proc/self/mountinfo")
_NETWORK: Final = frozenset(
    {
        "9p", "afs", "beegfs", "ceph", "cifs", "gfs2", "glusterfs", "gpfs", "lustre", "nfs",
        "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb3", "smbfs", "virtiofs", "wekafs",
    }
)  # fmt: skip


def is_network(folder: str) -> bool:
    """Return whether a folder is on a network: FUSE mounts count as networks, unknown types not."""
    return is_network_type(file_system_type(folder))


def is_network_type(kind: str) -> bool:
    """Return whether file systems of a type are on a network; see ``is_network``."""
    return kind in _NETWORK or kind.startswith("fuse")


def is_ceph_type(kind: str) -> bool:
    """Return whether file systems of a type are CephFS, by the kernel or by FUSE."""
    return kind == "ceph" or kind.startswith("fuse.ceph")


def file_system_type(path: str | os.PathLike[str]) -> str:
    """Return the type of the file system that holds ``path``, as ``fuse.ceph-fuse``; "" unknown.

    The answer for a real path is kept: it is that of the mounts at the first call.
    """
    # Kept by the real path: a relative one, or a link, may lead elsewhere at the next call.
    return _type_at(os.path.realpath(path))


@lru_cache(maxsize=256)
def _type_at(real: str) -> str:
    best, kind = "", ""
    # A later mount on the same mount point hides the earlier one.
    for mount_point, mounted in _mounts():
        if _is_below(real, mount_point) and len(mount_point) >= len(best):
            best, kind = mount_point, mounted
    return kind


def _is_below(path: str, mount_point: str) -> bool:
    return path == mount_point or path.startswith(mount_point.rstrip("/") + "/")


def _mounts() -> Iterator[tuple[str, str]]:
    """Yield mount point and type, in the order of mounting."""
    try:
        text = _MOUNTS.read_bytes().decode("utf-8", "surrogateescape")
    except OSError:
        return
    # Not ``splitlines``: the kernel escapes line feeds alone, and a name may hold other line ends.
    for line in text.split("\n"):
        before, _, after = line.partition(" - ")
        if after:
            yield _unescape(before.split(" ")[4]), after.split(" ")[0]


def _unescape(text: str) -> str:
    """Undo the octal escapes of spaces, tabs, line ends and backslashes."""
    # The backslash last: its replacement must not form another escape.
    for octal in ("040", "011", "012", "134"):
        text = text.replace(f"\\{octal}", chr(int(octal, 8)))
    return text

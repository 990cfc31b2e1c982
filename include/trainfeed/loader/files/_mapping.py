"""Shards that are mapped: on which file systems, and the advice that the kernel gets.

Advice that helps on a local disk hurts on a network. The kernel reads megabytes ahead of each
read. In a shuffled order the bytes behind a chunk belong to another window; if the set is larger
than the memory, they are evicted before that window needs them. So the kernel is advised that the
order is random, and ``ShardFiles.expect`` names the parts that are read next.
"""

from __future__ import annotations

import mmap
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

from trainfeed.thread_ties import new_lock

__all__ = ["MappedShards", "file_system_type", "is_network", "object_bytes"]

_MOUNTS: Final = Path("/proc/self/mountinfo")
_NETWORK: Final = frozenset(
    {
        "9p", "afs", "beegfs", "ceph", "cifs", "gfs2", "glusterfs", "gpfs", "lustre", "nfs",
        "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb3", "smbfs", "virtiofs", "wekafs",
    }
)  # fmt: skip
# Default size of the objects that CephFS cuts files into, and the attribute with a file's size.
_CEPH_OBJECT_BYTES: Final = 4 << 20
_CEPH_OBJECT_SIZE: Final = "ceph.file.layout.object_size"
_MAX_MAPPED: Final = 64


def file_system_type(path: str | os.PathLike[str]) -> str:
    """Return the type of the file system that holds ``path``, as ``fuse.ceph-fuse``; "" unknown."""
    real = os.path.realpath(path)
    best, kind = "", ""
    # A later mount on the same mount point hides the earlier one.
    for mount_point, mounted in _mounts():
        if _is_below(real, mount_point) and len(mount_point) >= len(best):
            best, kind = mount_point, mounted
    return kind


@lru_cache(maxsize=256)
def is_network(folder: str) -> bool:
    """Return whether a folder may be on a network; FUSE mounts count as networks."""
    kind = file_system_type(folder)
    return kind in _NETWORK or kind.startswith("fuse")


def object_bytes(path: str, fd: int) -> int | None:
    """Return the size of the CephFS objects of a file; None on other file systems.

    Args:
        path: The path of the file; its folder determines the file system.
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
    """Undo the octal escapes of spaces, tabs, line ends and backslashes."""
    for octal in ("040", "011", "012", "134"):
        text = text.replace(f"\\{octal}", chr(int(octal, 8)))
    return text


class MappedShards:
    """The shards of a set that are mapped, by number; threads may share it.

    Args:
        paths: The paths of the shards.
        open_plain: Opens a path for reading, and returns the descriptor.
        in_order: Whether the bytes behind a part are read next. The kernel then reads ahead;
            otherwise it is advised to read only the requested pages.
    """

    def __init__(
        self, paths: Sequence[str], open_plain: Callable[[str], int], *, in_order: bool
    ) -> None:
        self._paths, self._open_plain, self._in_order = paths, open_plain, in_order
        self._lock = new_lock()
        self._maps: OrderedDict[int, memoryview] = OrderedDict()

    def whole(self, shard: int) -> memoryview:
        """Return a shard; read-only, valid as long as it is held."""
        with self._lock:
            whole = self._maps.get(shard)
            if whole is None:
                whole = self._map(shard)
            # Stored again: opening may run the garbage collector, whose finalizers may call
            # clear().
            self._maps[shard] = whole
            self._maps.move_to_end(shard)
            if len(self._maps) > _MAX_MAPPED:
                self._maps.popitem(last=False)
        return whole

    def clear(self) -> None:
        """Drop all maps; views that a caller holds stay valid."""
        with self._lock:
            self._maps.clear()

    def _map(self, shard: int) -> memoryview:
        fd = self._open_plain(self._paths[shard])
        try:
            if not os.fstat(fd).st_size:
                return memoryview(b"")
            mapped = mmap.mmap(fd, 0, access=mmap.ACCESS_READ)
        finally:
            os.close(fd)
        if not self._in_order:
            with suppress(OSError):  # without the advice reads are slower, not wrong
                mapped.madvise(mmap.MADV_RANDOM)
        return memoryview(mapped)

"""Shard files as the loader opens, maps and reads them, again after temporary errors."""

from __future__ import annotations

import errno
import mmap
import os
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

from trainfeed.core.thread_ties import new_lock
from trainfeed.errors import NotFoundError, StorageError, TrainFeedError, TruncatedError
from trainfeed.files import SetWatch, kind_of_errno, plain_fd
from trainfeed.files.stores.posix import map_errors

# --- Shards that are mapped: on which file systems, and the advice that the kernel gets

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
    # The backslash last: its replacement must not form another escape.
    for octal in ("040", "011", "012", "134"):
        text = text.replace(f"\\{octal}", chr(int(octal, 8)))
    return text


class MappedShards:
    """The shards of a set that are mapped, by number; threads may share it.

    Args:
        paths: The paths of the shards.
        open_plain: Opens a path for reading, and returns the descriptor.
        in_order: Whether the bytes after a part are read next. The kernel then reads ahead;
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
            # The mapping keeps the file: the descriptor is closed below.
            mapped = mmap.mmap(fd, 0, access=mmap.ACCESS_READ)
        finally:
            os.close(fd)
        if not self._in_order:
            with suppress(OSError):  # without the advice reads are slower, not wrong
                mapped.madvise(mmap.MADV_RANDOM)
        return memoryview(mapped)


# --- Reads the shards of a set with few open files, and repeats reads after temporary errors

# A metadata server of CephFS is replaced within this time; a longer failure needs an operator.
DEFAULT_READ_DEADLINE_S: Final = 60.0

# Errors that disappear when a server or a connection is back.
_PASSING: Final = frozenset(
    {
        errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EAGAIN, errno.ENOTCONN, errno.ESHUTDOWN,
        errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.EREMOTEIO, errno.ECONNRESET,
    }
)  # fmt: skip
# Waits between attempts double, from the first to the last value.
_FIRST_WAIT_S: Final = 0.05
_LAST_WAIT_S: Final = 2.0
_MAX_OPEN: Final = 64


class _OpenShard:
    def __init__(self, path: str, fd: int) -> None:
        self.fd = fd
        self.object_bytes = object_bytes(path, fd)
        self.is_network = is_network(str(Path(path).parent))
        # ``num_users`` counts the reads that use the descriptor; ``retired`` means to close it
        # after the last.
        self.num_users = 0
        self.retired = False


class ShardFiles:
    """The files of a set, by number; threads may share the object.

    Args:
        paths: The paths of the files.
        deadline_s: Seconds for which a read is repeated after temporary errors.
        in_order: Whether the bytes after a read are read next; see ``MappedShards``.
        sets: The sets of shards that the files belong to; checked when a file is opened.

    Attributes:
        paths: As above.
        num_retries: Number of reads that were repeated.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        deadline_s: float = DEFAULT_READ_DEADLINE_S,
        in_order: bool = True,
        sets: SetWatch | None = None,
    ) -> None:
        self.paths = list(paths)
        self._sets = sets or SetWatch(())
        self.num_retries = 0
        self._deadline_s, self._in_order = deadline_s, in_order
        self._start()

    def __getstate__(self) -> dict[str, object]:
        # Descriptors, locks and mappings do not travel to another process, which opens the files
        # again.
        kept = ("paths", "_deadline_s", "_in_order", "_sets")
        return {**{name: getattr(self, name) for name in kept}, "num_retries": 0}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._start()

    def _start(self) -> None:
        self._lock = new_lock()
        self._open: OrderedDict[int, _OpenShard] = OrderedDict()
        # The finalizer refers to the dict and not to self, which it would keep alive.
        weakref.finalize(self, _close_all, self._open)
        self._mapped = MappedShards(self.paths, self._open_watched, in_order=self._in_order)

    def read(self, shard: int, offset_bytes: int, out: Sequence[memoryview]) -> None:
        """Fill all of ``out`` from ``offset_bytes`` on.

        Raises:
            TruncatedError: The file ends before ``out`` is full.
            NotFoundError: The file is gone.
            AccessDeniedError: The account may not read the file.
            FormatError: The path is not a plain file.
            StorageError: The file system still failed at the deadline.
        """
        end_s, wait_s, tries = time.monotonic() + self._deadline_s, _FIRST_WAIT_S, 1
        # After an error the file is opened again: on network file systems the old descriptor may
        # stay unusable.
        while (error := self._try_read(shard, offset_bytes, out)) is not None:
            self._retire(shard)
            if error.errno not in _PASSING or time.monotonic() + wait_s > end_s:
                raise self._read_error(error, shard, offset_bytes, tries) from error
            # A wait on an event that is never set; signals do not shorten it.
            threading.Event().wait(wait_s)
            wait_s, tries = min(2 * wait_s, _LAST_WAIT_S), tries + 1
            with self._lock:
                self.num_retries += 1

    def view(self, shard: int, offset_bytes: int, num_bytes: int) -> memoryview:
        """Return a part of a file that is mapped; read-only, valid as long as it is held.

        Raises:
            TruncatedError: The file ends before the part does.
            NotFoundError: The file is gone.
        """
        with map_errors(self.paths[shard]):
            part = self._mapped.whole(shard)[offset_bytes : offset_bytes + num_bytes]
        if len(part) < num_bytes:
            raise self._truncated(shard, offset_bytes, num_bytes, len(part))
        return part

    def expect(self, shard: int, offset_bytes: int, num_bytes: int) -> None:
        """Let the kernel begin to read a part of a file; does not wait for the disk.

        No advice is given in natural order, where the kernel reads ahead by itself, and on
        networks. Errors of the file are left to ``read`` and ``view``. ``posix_fadvise`` on a
        descriptor releases the interpreter lock; ``madvise`` on a map would hold it.

        Args:
            shard: Number of the file.
            offset_bytes: Offset of the part.
            num_bytes: Size of the part.
        """
        if self._in_order:
            return
        with suppress(OSError, TrainFeedError), self._opened(shard) as entry:
            if not entry.is_network:
                os.posix_fadvise(entry.fd, offset_bytes, num_bytes, os.POSIX_FADV_WILLNEED)

    @property
    def way(self) -> None:
        """None: the kernel reads ahead."""
        return None

    def discard(self, _shard: int, _offset_bytes: int, /) -> bool:
        """Return False: these are the files themselves, and no copies."""
        return False

    def close(self) -> None:
        """Close all files; views stay valid, and a later read opens the files again."""
        with self._lock:
            shards = list(self._open)
        self._mapped.clear()
        for shard in shards:
            self._retire(shard)

    def _try_read(self, shard: int, offset_bytes: int, out: Sequence[memoryview]) -> OSError | None:
        try:
            with self._opened(shard) as entry:
                self._fill(entry, shard, offset_bytes, out)
        except OSError as error:
            return error
        return None

    @contextmanager
    def _opened(self, shard: int) -> Iterator[_OpenShard]:
        with self._lock:
            entry = self._open.get(shard)
            if entry is None:
                path = self.paths[shard]
                entry = _OpenShard(path, self._open_watched(path))
                if not self._in_order and not entry.is_network:
                    # Not on networks: after this advice FUSE cuts reads into small requests.
                    os.posix_fadvise(entry.fd, 0, 0, os.POSIX_FADV_RANDOM)
            # A file in use is never closed: the last user closes a retired one.
            entry.num_users += 1
            self._open[shard] = entry
            self._open.move_to_end(shard)
            oldest = next(iter(self._open), None) if len(self._open) > _MAX_OPEN else None
        if oldest is not None:
            self._retire(oldest)
        try:
            yield entry
        finally:
            with self._lock:
                entry.num_users -= 1
                _close_unused(entry)

    def _retire(self, shard: int) -> None:
        with self._lock:
            entry = self._open.pop(shard, None)
            if entry is not None:
                entry.retired = True
                _close_unused(entry)

    def _open_watched(self, path: str) -> int:
        fd = plain_fd(path, follow=False)
        try:
            # Opened first, then checked: a file replaced before the open is noticed here.
            self._sets.require_unchanged()
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _fill(
        self, entry: _OpenShard, shard: int, offset_bytes: int, out: Sequence[memoryview]
    ) -> None:
        parts = [part for part in out if len(part)]
        wanted, got = sum(map(len, parts)), 0
        while parts:
            start = offset_bytes + got
            asked = parts
            if entry.object_bytes is not None:
                # Requests end at the bounds of the store's objects, so each goes to one server.
                asked = _leading(parts, entry.object_bytes - start % entry.object_bytes)
            # preadv may fill less than it was asked for; the rest is requested again.
            num_bytes = os.preadv(entry.fd, asked, start)
            if not num_bytes:
                raise self._truncated(shard, offset_bytes, wanted, got)
            got += num_bytes
            while parts and num_bytes >= len(parts[0]):
                num_bytes -= len(parts.pop(0))
            if num_bytes:
                parts[0] = parts[0][num_bytes:]

    def _truncated(self, shard: int, offset_bytes: int, wanted: int, got: int) -> TruncatedError:
        return TruncatedError(
            f"expected {wanted} bytes of a chunk, the file has {got}",
            path=self.paths[shard],
            offset_bytes=offset_bytes,
        )

    def _read_error(
        self, error: OSError, shard: int, offset_bytes: int, tries: int
    ) -> StorageError:
        path = self.paths[shard]
        if error.errno == errno.ENOENT:
            return NotFoundError(
                f"{path} is gone; a removed version cannot be read any further: read another, or"
                " keep versions longer (retention)"
            )
        return kind_of_errno(error.errno)(
            f"{error.strerror} while reading {path} at byte {offset_bytes}; tried {tries} times in"
            f" at most {self._deadline_s:g} s"
        )


def _leading(parts: Sequence[memoryview], num_bytes: int) -> list[memoryview]:
    """Return the first ``num_bytes`` bytes of parts, so that a request stays in one object."""
    found = []
    for part in parts:
        if num_bytes <= 0:
            break
        found.append(part[:num_bytes])
        num_bytes -= len(part)
    return found


def _close_all(opened: OrderedDict[int, _OpenShard]) -> None:
    """Close the open files of an object that is gone."""
    for entry in opened.values():
        entry.retired = True
        _close_unused(entry)


def _close_unused(entry: _OpenShard) -> None:
    if entry.retired and not entry.num_users:
        with suppress(OSError):
            os.close(entry.fd)
        # A second call must not close the number again: another file may have it by now.
        entry.retired = False

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
from pathlib import Path
from typing import Final

from trainfeed.core.thread_ties import new_lock
from trainfeed.errors import NotFoundError, StorageError, TrainFeedError, TruncatedError
from trainfeed.files import SetWatch, kind_of_errno, plain_fd
from trainfeed.files.stores.posix import map_errors
from trainfeed.loader.mounts import file_system_type, is_ceph_type, is_network_type

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
_IF_GONE: Final = "bring it back from a copy, or write it again"


class ShardFiles:
    """The files of a set, by number; threads may share the object.

    Args:
        paths: The paths of the files.
        deadline_s: Seconds for which a read is repeated after temporary errors.
        in_order: Whether the bytes after a read are read next. The kernel then reads ahead;
            otherwise it is advised to read only the requested pages.
        sets: The sets of shards that the files belong to; checked when a file is opened.
        if_gone: What to do about a file that is gone, for the message.

    Attributes:
        paths: As above.
        num_retries: Number of repetitions of reads.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        deadline_s: float = DEFAULT_READ_DEADLINE_S,
        in_order: bool = True,
        sets: SetWatch | None = None,
        if_gone: str = _IF_GONE,
    ) -> None:
        self.paths = list(paths)
        self._sets = sets or SetWatch(())
        self._if_gone = if_gone
        self.num_retries = 0
        self._deadline_s, self._in_order = deadline_s, in_order
        self._start()

    def __getstate__(self) -> dict[str, object]:
        # Descriptors, locks and mappings do not travel to another process, which opens the files
        # again.
        kept = ("paths", "_deadline_s", "_in_order", "_sets", "_if_gone")
        return {**{name: getattr(self, name) for name in kept}, "num_retries": 0}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._start()

    def _start(self) -> None:
        self._lock = new_lock()
        self._num_closed = 0
        self._opening: dict[int, threading.RLock] = {}
        self._types: dict[str, str] = {}
        self._open: OrderedDict[int, _OpenShard] = OrderedDict()
        # The finalizer refers to the dict and not to self, which it would keep alive.
        weakref.finalize(self, _close_all, self._open)
        self._mapped = _MappedShards(self.paths, self._open_watched, in_order=self._in_order)

    def read(self, shard: int, offset_bytes: int, out: Sequence[memoryview]) -> None:
        """Fill all of ``out`` from ``offset_bytes`` on.

        Raises:
            TruncatedError: The file ends before ``out`` is full.
            NotFoundError: The file is gone.
            AccessDeniedError: The account may not read the file.
            FileReplacedError: The set of the file was replaced.
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
            AccessDeniedError: The account may not read the file.
            FileReplacedError: The set of the file was replaced.
            FormatError: The path is not a plain file.
            StorageError: The file system failed.
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
            self._num_closed += 1
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
        except StorageError as error:
            # The manifest of a set, which is looked at when a file is opened, comes back likewise.
            cause = error.__cause__
            if isinstance(cause, OSError) and cause.errno in _PASSING:
                return cause
            raise
        return None

    @contextmanager
    def _opened(self, shard: int) -> Iterator[_OpenShard]:
        entry = self._kept_open(shard) or self._opened_now(shard)
        try:
            yield entry
        finally:
            with self._lock:
                entry.num_users -= 1
                _close_unused(entry)

    def _kept_open(self, shard: int) -> _OpenShard | None:
        """Return a file if it is open; it counts as in use."""
        with self._lock:
            # Taken out until it counts: a garbage collection may come in between, whose finalizers
            # may call close(). Stored again, it is the last to be closed for want of room.
            entry = self._open.pop(shard, None)
            if entry is not None:
                # A file in use is never closed: the last user closes a retired one.
                entry.num_users += 1
                self._open[shard] = entry
        return entry

    def _opened_now(self, shard: int) -> _OpenShard:
        """Open a file, and keep it open; it counts as in use."""
        with self._lock:
            num_closed = self._num_closed
            opening = self._opening.get(shard) or self._opening.setdefault(shard, new_lock())
        # A lock of the one file: where its open hangs, others are read on, and close() returns.
        with opening:
            if (entry := self._kept_open(shard)) is not None:
                return entry
            path = self.paths[shard]
            kind = self._type_of(str(Path(path).parent))
            entry = _OpenShard(self._open_watched(path), kind)
            if not self._in_order and not entry.is_network:
                # Not on networks: after this advice FUSE cuts reads into small requests.
                with suppress(OSError):  # without the advice reads are slower, not wrong
                    os.posix_fadvise(entry.fd, 0, 0, os.POSIX_FADV_RANDOM)
            with self._lock:
                self._opening.pop(shard, None)
                # What close() could not see is closed after this use.
                entry.retired = self._num_closed != num_closed or shard in self._open
                if not entry.retired:
                    self._open[shard] = entry
                oldest = next(iter(self._open)) if len(self._open) > _MAX_OPEN else None
        if oldest is not None:
            self._retire(oldest)
        return entry

    def _type_of(self, folder: str) -> str:
        """Return the type of the file system of a folder, which is looked up once."""
        kind = self._types.get(folder)
        if kind is None:
            kind = self._types[folder] = file_system_type(folder)
        return kind

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
            f"expected {wanted} bytes of a chunk, the file has {got} of them",
            path=self.paths[shard],
            offset_bytes=offset_bytes,
        )

    def _read_error(
        self, error: OSError, shard: int, offset_bytes: int, tries: int
    ) -> StorageError:
        path = self.paths[shard]
        if error.errno == errno.ENOENT:
            return NotFoundError(f"{path} is gone; {self._if_gone}")
        tried = f"; tried {tries} times in at most {self._deadline_s:g} s" if tries > 1 else ""
        return kind_of_errno(error.errno)(
            f"{error.strerror} while reading {path} at byte {offset_bytes}{tried}"
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


# --- Shards that are open

# Default size of the objects that CephFS cuts files into, and the attribute with a file's size.
_CEPH_OBJECT_BYTES: Final = 4 << 20
_CEPH_OBJECT_SIZE: Final = "ceph.file.layout.object_size"


class _OpenShard:
    def __init__(self, fd: int, kind: str) -> None:
        self.fd = fd
        self.is_network = is_network_type(kind)
        self.object_bytes = _object_bytes(fd) if is_ceph_type(kind) else None
        # ``num_users`` counts the reads that use the descriptor; ``retired`` means to close it
        # after the last. Whoever opens it is its first user.
        self.num_users = 1
        self.retired = False


def _object_bytes(fd: int) -> int:
    """Return the size of the objects of a file on CephFS."""
    try:
        text = os.getxattr(fd, _CEPH_OBJECT_SIZE)
    except OSError:
        return _CEPH_OBJECT_BYTES
    return int(text) if text.isdigit() and int(text) else _CEPH_OBJECT_BYTES


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


# --- Shards that are mapped

_MAX_MAPPED: Final = 64


class _MappedShards:
    """The shards of a set that are mapped, by number; threads may share it.

    Args:
        paths: The paths of the shards.
        open_plain: Opens a path for reading, and returns the descriptor.
        in_order: Whether the bytes after a part are read next.
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

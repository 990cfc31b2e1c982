"""Reads the shards of a set with few open files, and repeats reads after temporary errors.

On CephFS no request crosses the end of an object: each request goes to one server, and a repeated
request is small.

Reads are ``pread`` into memory of the caller. A mapped file kills the process (SIGBUS) when the
file is truncated or its server goes away, so only versions, which never change, are mapped, and
only on local disks.
"""

from __future__ import annotations

import errno
import os
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from trainfeed.errors import (
    NotFoundError,
    StorageError,
    TrainFeedError,
    TruncatedError,
)
from trainfeed.loader.files._mapping import MappedShards, is_network, object_bytes
from trainfeed.paths import SetWatch, kind_of_errno, plain_fd
from trainfeed.storage.posix import map_errors
from trainfeed.thread_ties import new_lock

__all__ = ["DEFAULT_READ_DEADLINE_S", "ShardFiles"]

# A metadata server of CephFS is replaced within this time; a longer failure needs an operator.
DEFAULT_READ_DEADLINE_S: Final = 60.0

_PASSING: Final = frozenset(
    {
        errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EAGAIN, errno.ENOTCONN, errno.ESHUTDOWN,
        errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.EREMOTEIO, errno.ECONNRESET,
    }
)  # fmt: skip
_FIRST_WAIT_S: Final = 0.05
_LAST_WAIT_S: Final = 2.0
_MAX_OPEN: Final = 64


class _OpenShard:
    def __init__(self, path: str, fd: int) -> None:
        self.fd = fd
        self.object_bytes = object_bytes(path, fd)
        self.is_network = is_network(str(Path(path).parent))
        self.num_users = 0
        self.retired = False


class ShardFiles:
    """The files of a set, by number; threads may share the object.

    Args:
        paths: The paths of the files.
        deadline_s: Seconds for which a read is repeated after temporary errors.
        in_order: Whether the bytes behind a read are read next; see ``MappedShards``.
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
        kept = ("paths", "_deadline_s", "_in_order", "_sets")
        return {**{name: getattr(self, name) for name in kept}, "num_retries": 0}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._start()

    def _start(self) -> None:
        self._lock = new_lock()
        self._open: OrderedDict[int, _OpenShard] = OrderedDict()
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
                f"{path} is gone; a version that was removed cannot be read on: read another, or"
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
        entry.retired = False

"""Shards that are mapped, and what the kernel is told about them.

The kernel reads megabytes ahead of each read. In a shuffled order the bytes behind a
chunk belong to another window, and where the set is larger than the memory they are gone before
that is due. So it is told that the order is random; ``ShardFiles.expect`` tells which parts are
wanted.
"""

from __future__ import annotations

import mmap
import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from trainfeed.forks import new_lock

__all__ = ["MappedShards"]

_MAX_MAPPED: Final = 64


class MappedShards:
    """The shards of a set that are mapped, by number; threads may share it.

    Args:
        paths: Their paths.
        open_plain: Opens a path for reading, and returns the descriptor.
        in_order: Whether the bytes behind a part are wanted next, so that the kernel should read
            ahead; else it reads what is asked for, and nothing more.
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
            # Set again: opening may run the garbage collector, which may have closed all files.
            self._maps[shard] = whole
            self._maps.move_to_end(shard)
            if len(self._maps) > _MAX_MAPPED:
                self._maps.popitem(last=False)
        return whole

    def clear(self) -> None:
        """Forget all; what is held stays valid."""
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
            with suppress(OSError):  # advice that is not taken costs time, nothing else
                mapped.madvise(mmap.MADV_RANDOM)
        return memoryview(mapped)

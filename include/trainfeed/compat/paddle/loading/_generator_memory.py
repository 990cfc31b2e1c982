"""Whether the batches of a child process fit the memory that is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from trainfeed.compat.paddle.loading._generator_columns import ColumnBatch, num_bytes
from trainfeed.errors import MemoryLimitError
from trainfeed.readers import open_reader

__all__ = ["available_bytes", "fitting", "require_memory"]

_CGROUPS: Final = Path("/sys/fs/cgroup")
_MEMINFO: Final = Path("/proc/meminfo")
# Beside those in the queue: one that is made, one that the consumer holds.
_MORE_BATCHES: Final = 2


def fitting(read: Callable[[], Iterator[ColumnBatch]], capacity: int) -> Iterator[ColumnBatch]:
    """Yield batches; look at the memory before the first one, and before any that is larger.

    Raises:
        MemoryLimitError: See ``require_memory``.
    """
    most_bytes = -1
    with open_reader(read) as batches:
        for columns in batches:
            if num_bytes(columns) > most_bytes:
                most_bytes = num_bytes(columns)
                require_memory(capacity, most_bytes)
            yield columns


def require_memory(capacity: int, batch_bytes: int) -> None:
    """Raise unless ``capacity`` batches and those in use fit.

    Shared memory without a name counts like any other memory of the container; the size of
    ``/dev/shm`` does not matter.

    Raises:
        MemoryLimitError: They do not.
    """
    need_bytes = (capacity + _MORE_BATCHES) * batch_bytes
    left_bytes = available_bytes()
    if left_bytes is not None and need_bytes > left_bytes:
        raise MemoryLimitError(
            f"{capacity} batches of {batch_bytes} bytes ahead, and {_MORE_BATCHES} in use, need"
            f" {need_bytes} bytes; {left_bytes} are left; lower capacity or the batch size, raise"
            " the memory limit, or use a thread (use_multiprocess=False) and less capacity"
        )


def available_bytes() -> int | None:
    """Return how much memory may still be taken; None where nobody says."""
    limits = [_free_of_machine(), *_free_of_cgroups()]
    known = [limit for limit in limits if limit is not None]
    return min(known) if known else None


def _free_of_machine() -> int | None:
    try:
        lines = _MEMINFO.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    return None


def _free_of_cgroups() -> Iterator[int | None]:
    """Yield what is left in the group of this process and in those above it."""
    for folder in (_CGROUPS, _CGROUPS / "memory"):
        yield _left(folder, "memory.max", "memory.current")
        yield _left(folder, "memory.limit_in_bytes", "memory.usage_in_bytes")
    try:
        entries = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for entry in entries:
        path = _CGROUPS / entry.rpartition(":")[2].lstrip("/")
        while path != _CGROUPS and _CGROUPS in path.parents:
            yield _left(path, "memory.max", "memory.current")
            path = path.parent


def _left(folder: Path, limit: str, usage: str) -> int | None:
    try:
        limit_text = (folder / limit).read_text().strip()
        used = int((folder / usage).read_text())
    except (OSError, ValueError):
        return None
    return int(limit_text) - used if limit_text.isdigit() else None

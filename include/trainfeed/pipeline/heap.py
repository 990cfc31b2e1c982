"""Returns freed memory to the system, in processes that live on after a task with large samples."""

from __future__ import annotations

import ctypes
from typing import Final

import pyarrow as pa

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
# Above the batches of landing files, of 6 MB: a batch reuses the memory of the one before.
_LARGE_BYTES: Final = 8 << 20
_KEPT_BYTES: Final = 64 << 20
_libc: Final = ctypes.CDLL(None)


def return_large_blocks() -> None:
    """Make the C library return every large block at once when it is freed, from now on."""
    _libc.mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
    _libc.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


def give_back() -> None:
    """Return all memory that is free now."""
    pa.default_memory_pool().release_unused()
    _libc.malloc_trim(0)

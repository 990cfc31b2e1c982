"""Gives memory back to the system where a process lives on after it held large samples.

The C library keeps what was freed for what comes next. Among blocks of megabytes the holes that
they leave would be twice what is in use, and what one task freed would count beside the next.
"""

from __future__ import annotations

import ctypes
from typing import Final

import pyarrow as pa

__all__ = ["give_back", "return_large_blocks"]

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_LARGE_BYTES: Final = 4 << 20
_KEPT_BYTES: Final = 64 << 20
_libc: Final = ctypes.CDLL(None)


def return_large_blocks() -> None:
    """Let every large block go back by itself when it is freed, from now on."""
    _libc.mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
    _libc.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


def give_back() -> None:
    """Return what is free now."""
    pa.default_memory_pool().release_unused()
    _libc.malloc_trim(0)

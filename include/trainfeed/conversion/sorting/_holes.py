"""Gives the space of a part of a file back while the rest of it is still needed."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, Final

__all__ = ["punch_hole"]

_KEEP_SIZE: Final = 1
_PUNCH_HOLE: Final = 2


def punch_hole(descriptor: int, start_bytes: int, num_bytes: int) -> bool:
    """Free a range of an open file, which reads as zeros from then on.

    Memory and disk that it took are free at once, and what was not yet written to disk never is.

    Returns:
        Whether the file system has done it. Where it cannot, nothing has changed.
    """
    fallocate = _fallocate()
    if fallocate is None or num_bytes <= 0:
        return False
    return bool(fallocate(descriptor, _KEEP_SIZE | _PUNCH_HOLE, start_bytes, num_bytes) == 0)


@cache
def _fallocate() -> Any:
    try:
        function = ctypes.CDLL(None).fallocate64
    except (AttributeError, OSError):
        # A C library without large files has 64-bit offsets anyhow, or no such function at all.
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    function.restype = ctypes.c_int
    return function

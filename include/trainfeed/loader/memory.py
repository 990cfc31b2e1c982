"""Memory lent to arrays, and returned when the last array that views it is gone."""

from __future__ import annotations

import math
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from trainfeed.recordio import ReusedMemory

# An array at any address works, but slower: vector loads are fastest at the start of a cache line.
ALIGNMENT_BYTES: Final = 64
_PAGE_BYTES: Final = 4096
# One buffer per open window, and some for the windows that are loaded ahead.
_MAX_FREE: Final = 64


class Memory(Protocol):
    """Memory for the arrays of a window.

    Attributes:
        is_lazy: Whether samples may stay in the buffer or mapped file that they were read from, to
            be copied when a batch needs them. True only in the process that assembles batches.
    """

    @property
    def is_lazy(self) -> bool: ...

    def reserve(self, num_bytes: int) -> None:
        """Reserve ``num_bytes`` for all arrays together; called once, before ``array``."""

    def array(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return an array, not initialised, that starts at a multiple of 64 bytes."""


class _Root:
    """The base object of all arrays of one lend; numpy keeps it alive through ``ndarray.base``.

    It keeps the buffer, and the weak reference to itself: one that is gone tells nobody of its end.
    """

    __slots__ = ("__array_interface__", "__weakref__", "buffer", "lend")

    __array_interface__: dict[str, Any]
    buffer: NDArray[np.uint8]
    lend: Lend


class Lend(weakref.ref[_Root]):
    """A buffer that is lent until the last array on it is gone.

    Attributes:
        back: What the one who lends it gets back then.
    """

    __slots__ = ("back",)

    back: Any


def lend(buffer: NDArray[np.uint8], ended: Callable[[Lend], None], back: Any) -> NDArray[np.uint8]:
    """Return a view of ``buffer``, shape ``(buffer.nbytes,)``.

    Args:
        buffer: Contiguous bytes. It is kept until the lend ends.
        ended: Called when the last array on this view is gone: in any thread, at any moment,
            perhaps during garbage collection. So it must take no lock, and be a function in C, such
            as ``append`` of a deque: one in Python can be interrupted by Ctrl-C, and Python would
            ignore that, and go on with a lend that has no end.
        back: Attribute of the lend: the buffer itself, if it is to be used again, or its number.
    """
    root = _Root()
    root.buffer, root.__array_interface__ = buffer, buffer.__array_interface__
    root.lend = Lend(root, ended)
    root.lend.back = back
    # np.asarray(root) keeps root as its base, not buffer: root dies with the last view.
    return np.asarray(root)


class LentPool:
    """Page-aligned buffers of one process, used again and again; threads may share it.

    New buffers have the size of the largest request so far, so that each can serve any later one.

    Args:
        max_free: Number of unused buffers that are kept.
    """

    def __init__(self, max_free: int = _MAX_FREE) -> None:
        self._free: deque[Lend] = deque(maxlen=max_free)
        self._largest = 0

    def lend(self, num_bytes: int) -> NDArray[np.uint8]:
        """Lend at least ``num_bytes``."""
        buffer = self._take(num_bytes)
        return lend(buffer, self._free.append, buffer)

    def _take(self, num_bytes: int) -> NDArray[np.uint8]:
        self._largest = max(self._largest, num_bytes)
        while True:
            try:
                # The buffer that came back last may still be in the cache of the CPU. One that is
                # too small is dropped here, and the loop goes on.
                buffer: NDArray[np.uint8] = self._free.pop().back
            except IndexError:
                break
            if buffer.nbytes >= num_bytes:
                return buffer
        room = np.empty(self._largest + _PAGE_BYTES, np.uint8)
        # Bytes up to the next page boundary: (-address) mod page size.
        skip = -room.__array_interface__["data"][0] % _PAGE_BYTES
        return room[skip:]


class ThreadMemory(ReusedMemory, threading.local):
    """Scratch memory per thread for bytes that are decoded at once; see ``ReusedMemory``."""


class LentMemory:
    """Memory for one window from a pool.

    Args:
        pool: The pool.

    Attributes:
        is_lazy: See ``Memory``.
    """

    def __init__(self, pool: LentPool) -> None:
        self.is_lazy = True
        self._pool = pool
        self._buffer: NDArray[np.uint8] = np.empty(0, np.uint8)
        self._used = 0

    def reserve(self, num_bytes: int) -> None:
        """Reserve ``num_bytes`` for all arrays together; called once, before ``array``."""
        self._buffer = self._pool.lend(num_bytes)

    def array(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return an array, not initialised, that starts at a multiple of 64 bytes."""
        array, self._used = carve(self._buffer, self._used, shape, np.dtype(dtype))
        return array


class FreshMemory:
    """New memory for every array; see ``Memory``."""

    is_lazy = False

    def reserve(self, num_bytes: int) -> None:
        """Do nothing: every array gets memory of its own."""

    def array(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return a new array."""
        return np.empty(shape, dtype)


def carve(
    buffer: NDArray[np.uint8], used: int, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> tuple[NDArray[Any], int]:
    """Return an array in ``buffer`` after its first ``used`` bytes, and the new ``used``."""
    num_bytes = math.prod(shape) * dtype.itemsize
    # -(-a // b) is a / b rounded up.
    start = -(-used // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    piece = buffer[start : start + num_bytes]
    if piece.nbytes < num_bytes:
        raise ValueError(f"an array would end at byte {start + num_bytes} of {buffer.nbytes}")
    return piece.view(dtype).reshape(shape), start + num_bytes

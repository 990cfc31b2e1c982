"""Limits the bytes that all threads of a copy send in a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

__all__ = ["RateLimit"]

# A pause of the sender is not made good later by more than this.
_BURST_S: Final = 0.1


class RateLimit:
    """A limit that is shared by threads.

    Args:
        bytes_per_s: The limit; None for no limit.
        clock: Seconds since any point in time.
    """

    def __init__(
        self, bytes_per_s: int | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._bytes_per_s = bytes_per_s
        self._clock = clock
        self._lock = threading.Lock()
        self._free_at_s = clock()

    def reserve(self, num_bytes: int) -> float:
        """Reserve the time of ``num_bytes``; return the seconds to wait before they are sent."""
        if self._bytes_per_s is None:
            return 0.0
        with self._lock:
            now_s = self._clock()
            begin_s = max(self._free_at_s, now_s - _BURST_S)
            self._free_at_s = begin_s + num_bytes / self._bytes_per_s
            return max(0.0, begin_s - now_s)

    def wait(self, num_bytes: int, stop: threading.Event) -> None:
        """Wait until ``num_bytes`` may be sent, or ``stop`` is set."""
        seconds = self.reserve(num_bytes)
        if seconds > 0:
            stop.wait(seconds)

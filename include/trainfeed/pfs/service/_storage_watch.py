"""Looks at the storage again and again, in a thread of its own, which alone hangs with it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

__all__ = ["StorageWatch"]

_LOOK_SECONDS: Final = 2.0
# A look that takes longer is one at storage that hangs.
_LONGEST_SECONDS: Final = 20.0


class StorageWatch:
    """The state of the storage, as the last look found it.

    Args:
        is_there: Whether the storage is there; it may hang.
        clock: Seconds of a clock that never goes back.
    """

    def __init__(
        self, is_there: Callable[[], bool], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._is_there = is_there
        self._clock = clock
        self._seen = True, clock()
        self._stop = threading.Event()
        # A daemon: the end of the process does not wait for storage that hangs.
        threading.Thread(target=self._look, name="pfs-storage", daemon=True).start()

    def is_well(self) -> bool:
        """Return whether the storage was there a moment ago."""
        is_there, at = self._seen
        return is_there and self._clock() - at < _LONGEST_SECONDS

    def close(self) -> None:
        """End the looks."""
        self._stop.set()

    def _look(self) -> None:
        while not self._stop.is_set():
            try:
                is_there = self._is_there()
            except OSError:
                is_there = False  # a mount whose program has ended
            self._seen = is_there, self._clock()
            self._stop.wait(_LOOK_SECONDS)

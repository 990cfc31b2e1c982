"""Patience of a client: which answers pass, and how long the next try waits."""

from __future__ import annotations

import random
import threading
import time
from typing import Final

__all__ = ["LONGEST_WAIT", "PASSING", "Patience"]

# Statuses of a server that may answer the same request a moment later.
PASSING: Final = frozenset({429, 502, 503, 504})
LONGEST_WAIT: Final = 5.0

_FIRST_WAIT: Final = 0.05


class Patience:
    """The tries of one request, within a bound of time.

    Args:
        seconds: Time for all tries together.
        stop: Set when the client is closed; no further try follows then.
    """

    def __init__(self, seconds: float, stop: threading.Event) -> None:
        self._until = time.monotonic() + seconds
        self._stop = stop
        self._wait = _FIRST_WAIT

    def waits(self, asked: float = 0.0) -> bool:
        """Wait for the next try, at least the seconds that the server asked for.

        Returns:
            Whether there is a next try.
        """
        # A random part of the wait: many clients of one server do not return at once.
        wait = max(asked, self._wait * random.uniform(0.5, 1.0))  # noqa: S311 (no secret)
        self._wait = min(2 * wait, LONGEST_WAIT)
        return time.monotonic() + wait <= self._until and not self._stop.wait(wait)

"""Rates per key: a bucket that fills at a steady rate, and of which each request takes one."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

__all__ = ["Rates"]

# Keys may be addresses, so their number is bounded; the one that was idle longest is forgotten.
_MAX_KEYS: Final = 4096


class Rates:
    """Buckets by key.

    Args:
        per_second: Requests per second that refill a bucket.
        burst: Size of a bucket, in requests.
        clock: Seconds of a clock that never goes back.
    """

    def __init__(
        self, per_second: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_second = per_second
        self._burst = max(burst, 1.0)
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, key: str) -> float:
        """Take one request of a key; return 0, or the seconds until the bucket has one again."""
        level = self._level(key)
        if level < 1.0:
            return (1.0 - level) / self._per_second
        self._keep(key, level - 1.0)
        return 0.0

    def spend(self, key: str, amount: float) -> None:
        """Take an amount of a key's bucket, also if it has less: it is in debt then."""
        self._keep(key, self._level(key) - amount)

    def debt_seconds(self, key: str) -> float:
        """Return the seconds until the bucket of a key is out of debt; 0 if it has none."""
        return max(0.0, -self._level(key) / self._per_second)

    def _keep(self, key: str, level: float) -> None:
        self._buckets[key] = (level, self._clock())
        self._buckets.move_to_end(key)
        if len(self._buckets) > _MAX_KEYS:
            self._buckets.popitem(last=False)

    def _level(self, key: str) -> float:
        level, since = self._buckets.get(key, (self._burst, self._clock()))
        return min(self._burst, level + (self._clock() - since) * self._per_second)

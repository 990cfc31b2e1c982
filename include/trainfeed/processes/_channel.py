"""A bounded hand-over from threads to one consumer."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

from trainfeed.thread_ties import new_lock, require_owner

__all__ = ["Channel"]

T = TypeVar("T")

# Nobody is known to lose a wake-up; this bounds what it would cost.
_RECHECK_S: Final = 1.0
_MAX_ACQUIRED: Final = 64


class Channel(Generic[T]):
    """Items on their way from producers to a consumer, at most ``size`` units of them.

    A unit is taken *before* what fills it is drawn from upstream, and given back when the consumer
    hands it on, so that nothing is ever more than ``size`` units ahead. What a producer raises
    reaches the consumer after all items that came before it.

    Args:
        size: The bound in units, 1 or more.

    Attributes:
        num_items: Items that were handed over until now.
    """

    def __init__(self, size: int) -> None:
        self.num_items = 0
        self._size = size
        self._items: deque[T] = deque()
        self._used = 0
        self._num_waiting = 0
        self._is_finished = False
        self._error: BaseException | None = None
        self._is_closed = False
        self._owner = os.getpid()
        lock = new_lock()
        self._filled = threading.Condition(lock)
        self._freed = threading.Condition(lock)

    def fill(self, items: Iterator[T], *, units_of: Callable[[T], int] | None = None) -> None:
        """Draw items and hand them over, until they end or the consumer leaves.

        Args:
            items: Where to draw from, one by one.
            units_of: What an item takes up; 1 each when None. The last one may exceed the bound.
        """
        while room := self._acquire(_MAX_ACQUIRED if units_of is None else 1):
            num_put = 0
            for item in itertools.islice(items, room):
                if not self._put(item, 1 if units_of is None else units_of(item)):
                    break
                num_put += 1
                del item
            if num_put < room:
                break

    def _acquire(self, max_units: int) -> int:
        """Wait for units and take up to ``max_units``; 0 once the consumer has left."""
        with self._freed:
            while self._used >= self._size and not self._is_closed:
                self._freed.wait(_RECHECK_S)
            if self._is_closed:
                return 0
            units = min(self._size - self._used, max_units)
            self._used += units
            return units

    def _put(self, item: T, units: int) -> bool:
        """Hand over an item for a unit that was acquired; False once the consumer has left."""
        with self._filled:
            self._items.append(item)
            self.num_items += 1
            self._used += units - 1
            # Notifying nobody would cost more than all the rest.
            if self._num_waiting:
                self._filled.notify()
            return not self._is_closed

    def finish(self, error: BaseException | None = None) -> None:
        """End the stream, in ``error`` if there is one; the first call counts."""
        with self._filled:
            if not self._is_finished:
                self._is_finished, self._error = True, error
            self._filled.notify_all()

    def take(self, max_items: int) -> list[T]:
        """Wait for items and take up to ``max_items``; empty at the end of the stream.

        Raises:
            LoaderError: This is a fork of the process that began the stream.
            BaseException: What the stream has ended in.
        """
        require_owner(self._owner)
        with self._filled:
            while not self._items and not self._is_finished and not self._is_closed:
                self._num_waiting += 1
                self._filled.wait(_RECHECK_S)
                self._num_waiting -= 1
            if len(self._items) <= max_items:
                taken = list(self._items)
                self._items.clear()
            else:
                taken = []
                # A garbage collection in here may have closed the stream.
                with contextlib.suppress(IndexError):
                    for _ in range(max_items):
                        taken.append(self._items.popleft())
            if not taken and self._error is not None:
                raise self._error
            return taken

    def release(self, units: int) -> None:
        """Give units back, just before the items that took them are handed on."""
        with self._freed:
            self._used -= units
            self._freed.notify_all()

    def close(self) -> None:
        """Let everybody go: the consumer has left."""
        with self._freed:
            self._is_closed = True
            self._items.clear()
            self._freed.notify_all()
            self._filled.notify_all()

    @property
    def backlog(self) -> int:
        """Items that wait to be taken."""
        return len(self._items)

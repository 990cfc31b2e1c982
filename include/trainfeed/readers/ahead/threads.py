"""Threads that read ahead of a consumer, and the bounded queue between them."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Generic, TypeVar

from trainfeed.core.thread_ties import new_lock, patience_s, require_owner
from trainfeed.readers import open_reader

# --- A bounded queue from producer threads to one consumer

T = TypeVar("T")

# Waits are repeated after this time, so a lost wake-up would delay a thread but not stop it.
_RECHECK_S: Final = 1.0
# A producer takes up to this many units under one lock.
_MAX_ACQUIRED: Final = 64


class Channel(Generic[T]):
    """Queue of items from producers to a consumer that bounds the items by ``size`` units.

    A producer acquires a unit *before* it draws the item from upstream, and the consumer releases
    the unit when it hands the item on. So producers are never more than ``size`` units ahead. An
    error of a producer reaches the consumer after all items before it.

    Args:
        size: The bound in units, 1 or more.

    Attributes:
        num_items: Items put into the queue so far.
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
        # Both conditions share one lock, which guards all fields.
        lock = new_lock()
        self._filled = threading.Condition(lock)
        self._freed = threading.Condition(lock)

    def fill(self, items: Iterator[T], *, units_of: Callable[[T], int] | None = None) -> None:
        """Draw items and put them into the queue, until they end or the consumer leaves.

        Args:
            items: Source of the items.
            units_of: Returns the units of an item; 1 each when None. The last item may exceed the
                bound.
        """
        # The size of an item is known only after it is drawn: with units_of one unit is acquired
        # per item, and ``_put`` adds the others.
        while room := self._acquire(_MAX_ACQUIRED if units_of is None else 1):
            num_put = 0
            for item in itertools.islice(items, room):
                if not self._put(item, 1 if units_of is None else units_of(item)):
                    break
                num_put += 1
                # Without this the name would keep the last item alive while the next one is drawn.
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
        """Put an item for which a unit was acquired; False once the consumer has left."""
        with self._filled:
            self._items.append(item)
            self.num_items += 1
            self._used += units - 1
            # A notification without a waiting thread would cost more than the rest of this method.
            if self._num_waiting:
                self._filled.notify()
            return not self._is_closed

    def finish(self, error: BaseException | None = None) -> None:
        """End the stream, with ``error`` if given; only the first call has an effect."""
        with self._filled:
            if not self._is_finished:
                self._is_finished, self._error = True, error
            self._filled.notify_all()

    def take(self, max_items: int) -> list[T]:
        """Wait for items and take up to ``max_items``; empty at the end of the stream.

        Raises:
            LoaderError: This process is a fork of the one that made the queue.
            BaseException: The error with which the stream has ended.
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
                # A garbage collection in this loop may close the stream and clear the items.
                with contextlib.suppress(IndexError):
                    for _ in range(max_items):
                        taken.append(self._items.popleft())
            if not taken and self._error is not None:
                raise self._error
            return taken

    def release(self, units: int) -> None:
        """Give units back; call it just before the last of their items is handed on."""
        with self._freed:
            self._used -= units
            self._freed.notify_all()

    def close(self) -> None:
        """Drop all items and wake all threads: the consumer has left."""
        with self._freed:
            self._is_closed = True
            self._items.clear()
            self._freed.notify_all()
            self._filled.notify_all()

    @property
    def backlog(self) -> int:
        """Number of items in the queue."""
        return len(self._items)


# --- A pass that a thread reads ahead of its consumer

# A thread in a blocked reader cannot be interrupted; its consumer waits this long and leaves it.
_JOIN_S: Final = 5.0
_MAX_TAKEN: Final = 64


def iter_ahead(
    read: Callable[[], Iterator[T]], size: int, *, units_of: Callable[[T], int] | None = None
) -> Iterator[T]:
    """Yield the items that a thread reads, at most ``size`` units ahead of the consumer.

    The thread starts when the first item is requested and ends with the iterator, however that
    ends. Its exception is raised here, after all items before it.

    Args:
        read: Starts a pass; called in the thread.
        size: Maximal number of units ahead, 1 or more.
        units_of: Returns the units of an item; 1 each when None. The last item may exceed the
            bound.
    """
    channel: Channel[T] = Channel(size)
    thread = start_thread(fill, channel, read, units_of)
    max_taken = max(1, min(_MAX_TAKEN, size // 2)) if units_of is None else 1
    try:
        while items := channel.take(max_taken):
            units = len(items) if units_of is None else units_of(items[0])
            # Units are released before the last item is yielded, so that the thread reads on while
            # the consumer works on it.
            last = items.pop()
            yield from items
            channel.release(units)
            yield last
            del last, items
    finally:
        channel.close()
        end_threads([thread])


def start_thread(target: Callable[..., None], *args: object) -> threading.Thread:
    """Start a thread that does not keep the interpreter from ending."""
    thread = threading.Thread(
        target=target, args=args, name=f"trainfeed-{target.__name__.strip('_')}", daemon=True
    )
    thread.start()
    return thread


def end_threads(threads: Iterable[threading.Thread]) -> None:
    """Wait a limited time for threads that were told to end."""
    deadline_s = time.monotonic() + patience_s(_JOIN_S)
    for thread in threads:
        # The garbage collector may close the iterator in the thread that fills it, which cannot
        # join itself.
        if thread is not threading.current_thread():
            thread.join(max(0, deadline_s - time.monotonic()))


def fill(
    channel: Channel[T],
    read: Callable[[], Iterator[T]],
    units_of: Callable[[T], int] | None = None,
) -> None:
    """Read a pass into a channel, to its end or until the consumer leaves."""
    try:
        with open_reader(read) as iterator:
            channel.fill(iterator, units_of=units_of)
    except BaseException as error:  # noqa: BLE001 (every exception is raised in the consumer)
        channel.finish(error)
    else:
        channel.finish()

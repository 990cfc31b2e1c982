"""A pass that a thread reads ahead of its consumer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from trainfeed.processes._channel import Channel
from trainfeed.readers import open_reader
from trainfeed.thread_ties import patience_s

__all__ = ["end_threads", "fill", "iter_ahead", "start_thread"]

T = TypeVar("T")

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

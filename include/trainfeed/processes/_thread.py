"""A pass that a thread makes ahead of its consumer."""

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

# A reader that hangs cannot be interrupted; a caller that leaves it does not hang with it.
_JOIN_S: Final = 5.0
_MAX_TAKEN: Final = 64


def iter_ahead(
    read: Callable[[], Iterator[T]], size: int, *, units_of: Callable[[T], int] | None = None
) -> Iterator[T]:
    """Yield what a thread reads, at most ``size`` units ahead of the consumer.

    The thread starts with the first item that is asked for and ends with the iterator, however
    that ends. What it raises is raised here, after all items that came before.

    Args:
        read: Starts a pass; called in the thread.
        size: The bound, 1 or more.
        units_of: What an item counts; one each when None. The last one may exceed the bound.
    """
    channel: Channel[T] = Channel(size)
    thread = start_thread(fill, channel, read, units_of)
    max_taken = max(1, min(_MAX_TAKEN, size // 2)) if units_of is None else 1
    try:
        while items := channel.take(max_taken):
            units = len(items) if units_of is None else units_of(items[0])
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
    """Wait for threads that were told to end, but not for ever."""
    deadline_s = time.monotonic() + patience_s(_JOIN_S)
    for thread in threads:
        # The garbage collector may close an iterator in the very thread that fills it.
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
    except BaseException as error:  # noqa: BLE001 (whatever it is, it is the consumer's)
        channel.finish(error)
    else:
        channel.finish()

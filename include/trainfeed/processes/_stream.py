"""Passes that child processes read ahead of their consumer."""

from __future__ import annotations

import contextlib
import socket
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from trainfeed.processes._channel import Channel
from trainfeed.processes._child import Child, receive_any
from trainfeed.processes._forked import hand_over_numbers, send_error, take_credits
from trainfeed.processes._message import MessageKind, send_message
from trainfeed.processes._thread import fill, start_thread

__all__ = ["iter_in_process", "iter_in_processes", "iter_in_turn"]

T = TypeVar("T")

_MAX_TAKEN: Final = 64


def iter_in_process(
    read: Callable[[], Iterator[T]],
    size: int,
    *,
    epoch: int = 0,
    prepare: Callable[[], None] | None = None,
    hands_over: bool = False,
) -> Iterator[T]:
    """Yield the items that a child process reads, at most ``size`` ahead of the consumer.

    The process starts when the first item is requested and ends with the iterator, however that
    ends. Its exception is raised here, with its traceback as a note, after all items before it.
    Items are sent one by one. Their arrays lie in shared memory, which lives as long as any of
    them.

    Args:
        read: Starts a pass; called in the child, which is a fork of this process.
        size: Maximal number of items ahead, 1 or more.
        epoch: Number of the pass; used only to seed random generators.
        prepare: Called here before the process starts.
        hands_over: Whether ``hand_over_numbers`` is called here when the process was started.

    Raises:
        WorkerDiedError: The child was killed, stopped, or has exited; raised after all items
            before.
    """
    return iter_in_processes(
        [read], size, max_taken=1, epoch=epoch, prepare=prepare, hands_over=hands_over
    )


def iter_in_processes(
    reads: Sequence[Callable[[], Iterator[T]]],
    size: int,
    *,
    max_taken: int = _MAX_TAKEN,
    epoch: int = 0,
    prepare: Callable[[], None] | None = None,
    hands_over: bool = False,
) -> Iterator[T]:
    """Yield items of several child processes as they arrive; see ``iter_in_process``.

    Args:
        reads: One function per child, which starts its pass; called in the child.
        size: Maximal number of items ahead per child, 1 or more.
        max_taken: Maximal number of items in one message.
        epoch: Number of the pass.
        prepare: Called here before the processes start.
        hands_over: Whether ``hand_over_numbers`` is called here when the processes were started.
    """
    if prepare is not None:
        prepare()
    # Messages of half the bound: the child can fill one while the consumer uses another.
    max_taken = max(1, min(max_taken, size // 2))
    children: list[Child] = []
    try:
        for number, read in enumerate(reads):
            service = _Pass(read, size, max_taken)
            children.append(Child(service, number=number, epoch=epoch))
        if hands_over:
            hand_over_numbers()
        yield from _received(children)
    finally:
        for child in children:
            child.close()


def iter_in_turn(
    reads: Sequence[Callable[[], Iterator[T]]],
    size: int,
    *,
    epoch: int = 0,
    timeout_s: float | None = None,
) -> Iterator[T]:
    """Yield one item of each child process in turn; see ``iter_in_process``.

    The order depends on ``reads`` alone. A child whose pass has ended is skipped from then on.

    Args:
        reads: One function per child, which starts its pass; called in the child.
        size: Maximal number of items ahead per child, 1 or more.
        epoch: Number of the pass.
        timeout_s: Seconds that an item may take, checked about once a second; None for no limit.

    Raises:
        LoaderError: An item takes longer than ``timeout_s``.
    """
    children: deque[Child] = deque()
    with contextlib.ExitStack() as stack:
        for number, read in enumerate(reads):
            children.append(Child(_Pass(read, size, 1), number=number, epoch=epoch))
            stack.callback(children[-1].close)
        while children:
            child = children.popleft()
            _, message = receive_any([child], timeout_s)
            if message.kind is MessageKind.ERROR:
                raise message.content
            if message.kind is MessageKind.ITEMS:
                children.append(child)
                child.give_back(message.units)
                yield message.content.pop()
            del message


def _received(children: Sequence[Child]) -> Iterator[Any]:
    active = list(children)
    while active:
        child, message = receive_any(active)
        if message.kind is MessageKind.ERROR:
            raise message.content
        # The child moves to the end of the list, so that the others are served first.
        active.remove(child)
        if message.kind is MessageKind.END:
            continue
        active.append(child)
        items = message.content
        # Credits are sent before the last item of the message is yielded: while the consumer works
        # on it, the child reads on.
        last = items.pop()
        yield from items
        child.give_back(message.units)
        # No name here may keep arrays alive that the consumer has dropped.
        del message, items
        yield last
        del last


class _Pass:
    """The service of the child: the main thread reads, one thread sends, one receives credits."""

    def __init__(self, read: Callable[[], Iterator[Any]], size: int, max_taken: int) -> None:
        self._read = read
        self._size = size
        self._max_taken = max_taken

    def __call__(self, connection: socket.socket) -> None:
        channel: Channel[Any] = Channel(self._size)
        start_thread(take_credits, connection, channel.release)
        sender = start_thread(_send, channel, connection, self._max_taken)
        fill(channel, self._read)
        sender.join()


def _send(channel: Channel[Any], connection: socket.socket, max_taken: int) -> None:
    try:
        while items := channel.take(max_taken):
            send_message(connection, MessageKind.ITEMS, items, units=len(items))
        send_message(connection, MessageKind.END, None)
    except BaseException as error:  # noqa: BLE001 (errors of the reader or of pickling a sample)
        channel.close()
        send_error(connection, error)

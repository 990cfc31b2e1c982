"""A pass that a child process makes ahead of its consumer."""

from __future__ import annotations

import contextlib
import socket
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from trainfeed.processes._channel import Channel
from trainfeed.processes._child import Child, receive_any
from trainfeed.processes._forked import send_error, take_credits
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
) -> Iterator[T]:
    """Yield what a child process reads, at most ``size`` items ahead of the consumer.

    The process starts with the first item that is asked for and ends with the iterator, however
    that ends. What it raises is raised here, with its traceback as a note, after all items that
    came before. Items travel one by one; arrays in them lie in shared memory, which lives as long
    as any of them is held.

    Args:
        read: Starts a pass; called in the child, a fork of this process.
        size: The bound, 1 or more.
        epoch: The number of the pass; only random generators see it.
        prepare: Called here before the process starts.

    Raises:
        WorkerDiedError: The child was killed, stopped, or has exited; after all items before that.
    """
    return iter_in_processes([read], size, max_taken=1, epoch=epoch, prepare=prepare)


def iter_in_processes(
    reads: Sequence[Callable[[], Iterator[T]]],
    size: int,
    *,
    max_taken: int = _MAX_TAKEN,
    epoch: int = 0,
    prepare: Callable[[], None] | None = None,
) -> Iterator[T]:
    """Yield what child processes read, one each, as it comes; see ``iter_in_process``.

    Args:
        reads: Start a pass each; called in the children.
        size: The bound for each of them, 1 or more.
        max_taken: Items that may travel together.
        epoch: The number of the pass.
        prepare: Called here before the processes start.
    """
    if prepare is not None:
        prepare()
    max_taken = max(1, min(max_taken, size // 2))
    children: list[Child] = []
    try:
        for number, read in enumerate(reads):
            service = _Pass(read, size, max_taken)
            children.append(Child(service, number=number, epoch=epoch))
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
    """Yield what child processes read, one item of each in turn; see ``iter_in_process``.

    The order depends on the reads alone. One that has ended is left out from then on.

    Args:
        reads: Start a pass each; called in the children.
        size: The bound for each of them, 1 or more.
        epoch: The number of the pass.
        timeout_s: How long an item may take, to the second; None is as long as its child lives.

    Raises:
        LoaderError: An item takes longer.
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
        # The others first next time.
        active.remove(child)
        if message.kind is MessageKind.END:
            continue
        active.append(child)
        items = message.content
        last = items.pop()
        yield from items
        child.give_back(message.units)
        del message, items
        yield last
        del last


class _Pass:
    """What the child does: the main thread reads, another sends, a third takes credits."""

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
    except BaseException as error:  # noqa: BLE001 (the reader's, or that of a sample's pickling)
        channel.close()
        send_error(connection, error)

"""The parent's side: starts, watches and ends child processes, and reads passes from them."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import random
import socket
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.process import BaseProcess
from typing import Any, Final, TypeVar

from trainfeed.core.child_processes import ChildProcess, next_message, poll
from trainfeed.core.memory_group import KillCount
from trainfeed.core.thread_ties import require_owner
from trainfeed.errors import LoaderError, WorkerDiedError
from trainfeed.readers.ahead.forked import (
    CREDIT,
    Message,
    MessageKind,
    Service,
    global_numbers,
    hand_over_numbers,
    receive_message,
    run,
    send_error,
    send_message,
    take_credits,
)
from trainfeed.readers.ahead.threads import Channel, fill, start_thread

# --- Starts, receives from, watches and ends child processes

# Interval between checks for stopped children while no message arrives.
_LOOK_S: Final = 1.0
_JOIN_S: Final = 5.0
_REAPED_S: Final = 0.001
_MAX_WAITS: Final = 1000


class Child(ChildProcess):
    """A forked process that serves this one through a socket, and ends when this one ends.

    The process is a fork because readers are closures, which cannot be sent to a new interpreter.
    Only the forking thread continues in a fork, so a lock held by another thread at that moment is
    never released there. Locks of Python and numpy are handled. Locks of other libraries and of
    clients opened before the fork are not: a reader should open its files and clients in its pass.

    Args:
        service: Function called in the child; its exception is sent to this process.
        number: Number of the child in its pass, from 0.
        epoch: Number of the pass. Random generators of the child continue from the parent's state
            where both numbers are 0, and from a different state for every other pair.

    Attributes:
        number: As above.
        socket: The parent's side of the connection.
    """

    def __init__(self, service: Service, *, number: int = 0, epoch: int = 0) -> None:
        self.number = number
        kills = KillCount()
        # SEQPACKET keeps the bounds of messages, and reports the end of the other side as an empty
        # packet.
        self.socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with contextlib.closing(other):
            self._process = multiprocessing.get_context("fork").Process(
                target=run,
                args=(service, other, self.socket, (number, epoch), random.getstate()),
                daemon=True,
            )
            # The fork copies numpy's lock. Holding it here makes sure that no other thread has it;
            # ``run`` releases the child's copy.
            with global_numbers():
                self._process.start()
        super().__init__(self._process.pid or 0, kills)
        # Runs at the interpreter's end too: multiprocessing sends SIGTERM there, which does not
        # end a stopped child.
        self._end = weakref.finalize(
            self, _end, self._process, self.socket, self.fileno(), self.owner
        )
        self._is_silent = False
        self._owed = 0

    def close(self) -> None:
        """Kill the process and close the socket; from any thread, and repeatedly."""
        self._end()

    def kill(self) -> None:
        """Kill the process, which wakes a thread waiting for it; without effect in a fork."""
        if os.getpid() == self.owner:
            self._process.kill()

    def send(self, content: Any) -> None:
        """Send an object to the process.

        Raises:
            WorkerDiedError: The process has ended.
        """
        try:
            send_message(self.socket, MessageKind.ITEMS, content)
        except (BrokenPipeError, ConnectionResetError):
            raise self.death() from None

    def give_back(self, units: int) -> None:
        """Tell the process that ``units`` more were handed on; never blocks."""
        self._owed += units
        try:
            self.socket.send(CREDIT.pack(self._owed), socket.MSG_DONTWAIT)
        except BlockingIOError:
            # The socket is full: the child has hundreds of credits to read. The next call sends
            # the sum.
            return
        except (BrokenPipeError, ConnectionResetError):
            # The process has ended. If it had not sent everything, receiving reports it later.
            pass
        self._owed = 0

    def try_receive(self) -> Message | None:
        """Return the next message, or None if none has arrived."""
        if self._is_silent:
            return None
        try:
            message = self._receive()
        except BlockingIOError:
            return None
        self._is_silent = message is None
        return message

    def _receive(self) -> Message | None:
        try:
            return receive_message(self.socket, socket.MSG_DONTWAIT)
        except ConnectionResetError:
            # The kernel reports this once, ahead of the waiting messages, when the other side
            # ended with unread packets. Credits for the last samples are usually unread.
            return receive_message(self.socket, socket.MSG_DONTWAIT)

    def message_fds(self) -> list[int]:
        """Return what is readable when a message has arrived; empty when none comes any more."""
        return [] if self._is_silent else [self.socket.fileno()]

    def death(self) -> WorkerDiedError:
        """Return the error that reports how the process has ended."""
        code, num_waits = _reaped(self._process, self.fileno()), 0
        # A thread that starts a process reaps all ended children, and sets their exit codes a
        # moment later.
        while code is None and num_waits < _MAX_WAITS:
            threading.Event().wait(_REAPED_S)
            code, num_waits = self._process.exitcode, num_waits + 1
        return WorkerDiedError(
            f"worker {self.number} (process {self.pid}) {self.ending(code)} before the end of its"
            " pass; samples before that were delivered"
        )


def receive_any(children: Sequence[Child], timeout_s: float | None = None) -> tuple[Child, Message]:
    """Wait for a message of any child.

    Args:
        children: The processes to receive from.
        timeout_s: Seconds to wait, checked about once a second; None for no limit.

    Raises:
        WorkerDiedError: A child has ended, and all its messages were received; or it has been
            stopped for some seconds.
        LoaderError: This process is a fork of the children's parent, or the time is over.
    """
    for child in children:
        require_owner(child.owner)
    end_s = math.inf if timeout_s is None else time.monotonic() + timeout_s
    while (found := next_message(children, _LOOK_S)) is None:
        for child in children:
            if child.stays_stopped():
                raise WorkerDiedError(
                    f"worker {child.number} (process {child.pid}) is stopped by a signal; continue"
                    f" it with kill -CONT {child.pid} before you start the pass again"
                )
        if time.monotonic() > end_s:
            raise late(timeout_s)
    return found


def late(timeout_s: float | None) -> LoaderError:
    """Return the error of workers that have not sent a batch in time."""
    return LoaderError(
        f"expected a batch within {timeout_s:g} s, the workers live and have sent none; raise"
        " timeout if samples take that long"
    )


def _reaped(process: BaseProcess, pidfd: int) -> int | None:
    """Wait a limited time for the end of a process, and return its exit code."""
    # Not ``join``: it waits for the end of a pipe whose descriptor other forks may have copied.
    poll([pidfd], _JOIN_S)
    code = process.exitcode
    process.join(0)
    return code


def _end(process: BaseProcess, connection: socket.socket, pidfd: int, owner: int) -> None:
    # A later fork has a copy of this finalizer, and must not kill its sibling.
    if os.getpid() == owner:
        process.kill()
        _reaped(process, pidfd)
    connection.close()
    os.close(pidfd)


# --- Passes that child processes read ahead of their consumer

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

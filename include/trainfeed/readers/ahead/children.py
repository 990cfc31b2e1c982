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
from contextlib import contextmanager
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
    Pass,
    Service,
    numpy_random_lock,
    receive_message,
    reseed_parent,
    run,
    send_message,
)

# --- Starts, receives from, watches and ends child processes

# Interval between checks for stopped children while no message arrives.
_CHECK_S: Final = 1.0
_END_S: Final = 5.0
_EXIT_CODE_S: Final = 1.0


class Child(ChildProcess):
    """A forked process that serves this one through a socket, and ends when this one ends.

    The process is a fork because readers are closures, which cannot be sent to a new interpreter.
    Only the forking thread continues in a fork, so a lock held by another thread at that moment is
    never released there. Locks of Python and numpy are handled. Locks of other libraries and of
    clients opened before the fork are not: a reader should open its files and clients in its pass.

    Args:
        service: Function called in the child; its exception is sent to this process.
        number: Number of the child in its pass, from 0.
        epoch: Number of the pass, used only for seeds. If ``number`` and ``epoch`` are 0, the
            random generators of the child continue from the parent's state; every other pair
            gives them a state of its own.

    Attributes:
        number: As above.
        socket: The parent's side of the connection.

    Raises:
        OSError: The process cannot be started or watched; no process and no descriptor stays.
    """

    def __init__(self, service: Service, *, number: int = 0, epoch: int = 0) -> None:
        self.number = number
        kills = KillCount()
        # SEQPACKET keeps the bounds of messages, and reports the end of the other side as an empty
        # packet.
        self.socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with contextlib.ExitStack() as undo, contextlib.closing(other):
            undo.callback(self.socket.close)
            self._process = multiprocessing.get_context("fork").Process(
                target=run,
                args=(service, other, self.socket, (number, epoch), random.getstate()),
                daemon=True,
            )
            # The fork copies numpy's lock. Holding it here makes sure that no other thread has it;
            # ``run`` releases the child's copy.
            with numpy_random_lock():
                self._process.start()
            undo.callback(self._process.join)
            undo.callback(self._process.kill)
            super().__init__(self._process.pid or 0, kills)
            undo.pop_all()
        # Runs at the interpreter's end too: multiprocessing sends SIGTERM there, which does not
        # end a stopped child.
        self._end = weakref.finalize(
            self, _end, self._process, self.socket, self.fileno(), self.owner
        )
        self._is_at_end = False
        self._unsent_credits = 0

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

    def send_credits(self, units: int) -> None:
        """Allow the process to read ``units`` more items ahead; never blocks."""
        self._unsent_credits += units
        try:
            self.socket.send(CREDIT.pack(self._unsent_credits), socket.MSG_DONTWAIT)
        except BlockingIOError:
            # The socket is full: the child has hundreds of credits to read. The next call sends
            # the sum.
            return
        except (BrokenPipeError, ConnectionResetError):
            # The process has ended. If it had not sent everything, receiving reports it later.
            pass
        self._unsent_credits = 0

    def try_receive(self) -> Message | None:
        """Return the next message, or None if none has arrived."""
        if self._is_at_end:
            return None
        try:
            message = self._receive()
        except BlockingIOError:
            return None
        self._is_at_end = message is None
        return message

    def _receive(self) -> Message | None:
        try:
            return receive_message(self.socket, socket.MSG_DONTWAIT)
        except ConnectionResetError:
            # The kernel reports this once, ahead of the waiting messages, when the other side
            # ended with unread packets. Credits for the last samples are usually unread.
            return receive_message(self.socket, socket.MSG_DONTWAIT)

    def message_fds(self) -> list[int]:
        """Return what is readable when a message has arrived; empty after the last message."""
        return [] if self._is_at_end else [self.socket.fileno()]

    def death(self) -> WorkerDiedError:
        """Return the error that reports how the process has ended."""
        code, end_s = _reap(self._process, self.fileno()), time.monotonic() + _EXIT_CODE_S
        # A thread that starts a process reaps all ended children, and sets their exit codes a
        # moment later.
        while code is None and time.monotonic() < end_s:
            threading.Event().wait(0.001)
            code = self._process.exitcode
        return WorkerDiedError(
            f"worker {self.number} (process {self.pid}) {self.ending(code)} before the end of its"
            " pass"
        )


@contextmanager
def started(
    services: Sequence[Service], *, epoch: int = 0, reseeds_parent: bool = False
) -> Iterator[list[Child]]:
    """Start one child per service, numbered from 0, and close all of them at the end.

    Args:
        services: As for ``Child``.
        epoch: As for ``Child``.
        reseeds_parent: Whether ``reseed_parent`` is called when all children were started.
    """
    with contextlib.ExitStack() as stack:
        children: list[Child] = []
        for number, service in enumerate(services):
            children.append(Child(service, number=number, epoch=epoch))
            stack.callback(children[-1].close)
        if reseeds_parent:
            reseed_parent()
        yield children


def receive_any(children: Sequence[Child], timeout_s: float | None = None) -> tuple[Child, Message]:
    """Wait for a message of any child.

    Args:
        children: The processes to receive from.
        timeout_s: Seconds to wait, checked about once a second; None for no limit.

    Raises:
        WorkerDiedError: A child has ended, and all its messages were received; or it has been
            stopped for some seconds.
        LoaderError: This process is a fork of the children's parent, or the time is over.
        BaseException: The error of a child's service, as the child has sent it.
    """
    for child in children:
        require_owner(child.owner)
    limit_s = math.inf if timeout_s is None else timeout_s
    end_s = time.monotonic() + limit_s
    while (found := next_message(children, _CHECK_S)) is None:
        for child in children:
            if child.stays_stopped():
                raise WorkerDiedError(
                    f"worker {child.number} (process {child.pid}) is stopped by a signal; continue"
                    f" it with kill -CONT {child.pid} before you start the pass again"
                )
        if time.monotonic() > end_s:
            raise timeout_error(limit_s)
    child, message = found
    if message.kind is MessageKind.ERROR:
        raise message.content
    return child, message


def timeout_error(timeout_s: float) -> LoaderError:
    """Return the error of workers that have not sent a batch in time."""
    return LoaderError(
        f"expected a batch within {timeout_s:g} s, the workers are running and have sent none;"
        " raise timeout if samples take that long"
    )


def _reap(process: BaseProcess, pidfd: int) -> int | None:
    """Wait a limited time for the end of a process, and return its exit code."""
    # Not ``join``: it waits for the end of a pipe whose descriptor other forks may have copied.
    poll([pidfd], _END_S)
    code = process.exitcode
    process.join(0)
    return code


def _end(process: BaseProcess, connection: socket.socket, pidfd: int, owner: int) -> None:
    # A later fork has a copy of this finalizer, and must not kill its sibling.
    if os.getpid() == owner:
        process.kill()
        _reap(process, pidfd)
    connection.close()
    os.close(pidfd)


# --- Passes that child processes read ahead of their consumer

T = TypeVar("T")

_MAX_PER_MESSAGE: Final = 64


def iter_in_process(
    read: Callable[[], Iterator[T]],
    size: int,
    *,
    epoch: int = 0,
    prepare: Callable[[], None] | None = None,
    reseeds_parent: bool = False,
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
        reseeds_parent: Whether ``reseed_parent`` is called here after the process was started.

    Raises:
        WorkerDiedError: The child was killed, stopped, or has exited; raised after all items
            before.
    """
    return iter_in_processes(
        [read],
        size,
        max_per_message=1,
        epoch=epoch,
        prepare=prepare,
        reseeds_parent=reseeds_parent,
    )


def iter_in_processes(
    reads: Sequence[Callable[[], Iterator[T]]],
    size: int,
    *,
    max_per_message: int = _MAX_PER_MESSAGE,
    epoch: int = 0,
    prepare: Callable[[], None] | None = None,
    reseeds_parent: bool = False,
) -> Iterator[T]:
    """Yield items of several child processes as they arrive; see ``iter_in_process``.

    Args:
        reads: One function per child, which starts its pass; called in the child.
        size: Maximal number of items ahead per child, 1 or more.
        max_per_message: Maximal number of items in one message.
        epoch: Number of the pass.
        prepare: Called here before the processes start.
        reseeds_parent: Whether ``reseed_parent`` is called here after the processes were started.
    """
    if prepare is not None:
        prepare()
    # A message has at most half of the items ahead: the child can fill one while the consumer uses
    # another.
    most = max(1, min(max_per_message, size // 2))
    services = [Pass(read, size, most) for read in reads]
    with started(services, epoch=epoch, reseeds_parent=reseeds_parent) as children:
        yield from _items_as_they_arrive(children)


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
    with started([Pass(read, size, 1) for read in reads], epoch=epoch) as children:
        active = deque(children)
        while active:
            child = active.popleft()
            _, message = receive_any([child], timeout_s)
            if message.kind is MessageKind.ITEMS:
                active.append(child)
                child.send_credits(message.units)
                yield message.content.pop()
            del message


def _items_as_they_arrive(children: Sequence[Child]) -> Iterator[Any]:
    active = list(children)
    while active:
        child, message = receive_any(active)
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
        child.send_credits(message.units)
        # No name here may keep arrays alive that the consumer has dropped.
        del message, items
        yield last
        del last

"""Starts, receives from, watches and ends child processes."""

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
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from typing import Any, Final

from trainfeed.errors import LoaderError, WorkerDiedError
from trainfeed.memory_group import KillCount
from trainfeed.process_ties import ending, is_stopped
from trainfeed.processes._forked import CREDIT, Service, global_numbers, poll, run
from trainfeed.processes._message import Message, MessageKind, receive_message, send_message
from trainfeed.thread_ties import require_owner

__all__ = ["Child", "late", "receive_any"]

# Interval between checks for stopped children while no message arrives.
_POLL_MS: Final = 1000
# More than one, because Ctrl-Z stops parent and children together, and the parent may continue
# first.
_MAX_STOPPED_POLLS: Final = 3
_JOIN_S: Final = 5.0
_LOOK_S: Final = 0.001
_MAX_LOOKS: Final = 1000


class Child:
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
        self._kills = KillCount()
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
        # Unlike a process id, this descriptor never refers to a later process, and it can be
        # polled.
        self._pidfd = os.pidfd_open(self.pid)
        self._owner = os.getpid()
        # Runs at the interpreter's end too: multiprocessing sends SIGTERM there, which does not
        # end a stopped child.
        self._end = weakref.finalize(
            self, _end, self._process, self.socket, self._pidfd, self._owner
        )
        self._is_silent = False
        self._num_stopped = 0
        self._owed = 0

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid or 0

    def close(self) -> None:
        """Kill the process and close the socket; from any thread, and repeatedly."""
        self._end()

    def kill(self) -> None:
        """Kill the process, which wakes a thread waiting for it; without effect in a fork."""
        if os.getpid() == self._owner:
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

    def has_ended(self) -> bool:
        """Return whether the process has ended; its last messages may still be in the socket."""
        return bool(poll([self._pidfd], 0))

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

    def check_owner(self) -> None:
        """Raise in a fork of the parent, which must not take the parent's messages.

        Raises:
            LoaderError: This process is a fork.
        """
        require_owner(self._owner)

    def wait_fds(self) -> list[int]:
        """Return the descriptors to poll: one becomes readable on a message or the end."""
        # A socket at its end is always readable: polling it would never wait.
        return [self._pidfd] if self._is_silent else [self._pidfd, self.socket.fileno()]

    def check_running(self) -> None:
        """Raise once the process has been stopped for some seconds.

        Raises:
            WorkerDiedError: The process is stopped.
        """
        self._num_stopped = self._num_stopped + 1 if is_stopped(self.pid) else 0
        if self._num_stopped >= _MAX_STOPPED_POLLS:
            raise WorkerDiedError(
                f"worker {self.number} (process {self.pid}) is stopped by a signal; continue it"
                f" with kill -CONT {self.pid} before you start the pass again"
            )

    def death(self) -> WorkerDiedError:
        """Return the error that reports how the process has ended."""
        code, num_looks = _reaped(self._process, self._pidfd), 0
        # A thread that starts a process reaps all ended children, and sets their exit codes a
        # moment later.
        while code is None and num_looks < _MAX_LOOKS:
            threading.Event().wait(_LOOK_S)
            code, num_looks = self._process.exitcode, num_looks + 1
        how = ending(code, self._kills.has_grown())
        return WorkerDiedError(
            f"worker {self.number} (process {self.pid}) {how} before the end of its pass; samples"
            " before that were delivered"
        )


def receive_any(children: Sequence[Child], timeout_s: float | None = None) -> tuple[Child, Message]:
    """Wait for a message of any child.

    Args:
        children: The processes to receive from.
        timeout_s: Seconds to wait, checked about once a second; None for no limit.

    Raises:
        WorkerDiedError: A child has ended, and all its messages were received.
        LoaderError: This process is a fork of the children's parent, or the time is over.
    """
    for child in children:
        child.check_owner()
    end_s = math.inf if timeout_s is None else time.monotonic() + timeout_s
    while True:
        # Checked before the sockets are read: a child that has ended by now sends nothing more, so
        # an empty socket then means that no message is missing.
        ended = [child for child in children if child.has_ended()]
        for child in children:
            message = child.try_receive()
            if message is not None:
                return child, message
        if ended:
            raise ended[0].death()
        if not poll([fd for child in children for fd in child.wait_fds()], _POLL_MS):
            for child in children:
                child.check_running()
        if time.monotonic() > end_s:
            raise late(timeout_s)


def late(timeout_s: float | None) -> LoaderError:
    """Return the error of workers that have not sent a batch in time."""
    return LoaderError(
        f"expected a batch within {timeout_s:g} s, the workers live and have sent none; raise"
        " timeout if samples take that long"
    )


def _reaped(process: BaseProcess, pidfd: int) -> int | None:
    """Wait a limited time for the end of a process, and return its exit code."""
    # Not ``join``: it waits for the end of a pipe whose descriptor other forks may have copied.
    poll([pidfd], int(_JOIN_S * 1000))
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

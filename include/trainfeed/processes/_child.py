"""Child processes: started, listened to, watched, ended."""

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

_POLL_MS: Final = 1000
# Ctrl-Z stops parent and children together, and one of them wakes up first.
_MAX_STOPPED_POLLS: Final = 3
_JOIN_S: Final = 5.0
_LOOK_S: Final = 0.001
_MAX_LOOKS: Final = 1000


class Child:
    """A forked process that serves this one through a socket; ends with it.

    It is forked because readers are closures, which cannot be sent to a fresh interpreter. Only the
    thread that forks goes on in it, so a lock that another one holds at that moment is never given
    back there. Locks of Python and numpy are taken care of; those of other libraries, and of
    clients that were opened before, are the reader's: it should open in its pass what it needs.

    Args:
        service: Called in the child. What it raises is sent here.
        number: Tells children of one pass apart.
        epoch: The number of the pass. Random generators of the child go on from the parent's
            state where both numbers are 0, and from another one each otherwise.

    Attributes:
        number: As above.
        socket: This side of the connection.
    """

    def __init__(self, service: Service, *, number: int = 0, epoch: int = 0) -> None:
        self.number = number
        self._kills = KillCount()
        self.socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with contextlib.closing(other):
            self._process = multiprocessing.get_context("fork").Process(
                target=run,
                args=(service, other, self.socket, (number, epoch), random.getstate()),
                daemon=True,
            )
            # Another thread may be drawing numbers; ``run`` gives the child's copy back.
            with global_numbers():
                self._process.start()
        self._pidfd = os.pidfd_open(self.pid)
        self._owner = os.getpid()
        # Also at the interpreter's end, where a stopped child would not hear SIGTERM.
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
        """Kill the process and forget it; may be called from another thread, and again."""
        self._end()

    def kill(self) -> None:
        """Kill the process, so that a thread waiting for it hears of its end; not from a fork."""
        if os.getpid() == self._owner:
            self._process.kill()

    def send(self, content: Any) -> None:
        """Send an object to the process.

        Raises:
            WorkerDiedError: It is gone.
        """
        try:
            send_message(self.socket, MessageKind.ITEMS, content)
        except (BrokenPipeError, ConnectionResetError):
            raise self.death() from None

    def give_back(self, units: int) -> None:
        """Tell the process that so many units were handed on; never waits."""
        self._owed += units
        try:
            self.socket.send(CREDIT.pack(self._owed), socket.MSG_DONTWAIT)
        except BlockingIOError:
            # It has hundreds of these to read yet; this goes with the next one.
            return
        except (BrokenPipeError, ConnectionResetError):
            # It has ended; whether it said all shows when the next message is missing.
            pass
        self._owed = 0

    def has_ended(self) -> bool:
        """Say whether the process is gone; what it sent before may still wait in the socket."""
        return bool(poll([self._pidfd], 0))

    def try_receive(self) -> Message | None:
        """Return a message if one waits."""
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
            # Said once, and before what still waits, when the other side has left something
            # unread, as credits for the last samples mostly are.
            return receive_message(self.socket, socket.MSG_DONTWAIT)

    def check_owner(self) -> None:
        """Raise in a fork, which must not take what is sent to its parent.

        Raises:
            LoaderError: This is one.
        """
        require_owner(self._owner)

    def wait_fds(self) -> list[int]:
        """Return the descriptors of which one gets readable when something happens."""
        return [self._pidfd] if self._is_silent else [self._pidfd, self.socket.fileno()]

    def check_running(self) -> None:
        """Raise once the process has been stopped for some seconds.

        Raises:
            WorkerDiedError: It has.
        """
        self._num_stopped = self._num_stopped + 1 if is_stopped(self.pid) else 0
        if self._num_stopped >= _MAX_STOPPED_POLLS:
            raise WorkerDiedError(
                f"worker {self.number} (process {self.pid}) is stopped by a signal; continue it"
                f" with kill -CONT {self.pid} before you start the pass again"
            )

    def death(self) -> WorkerDiedError:
        """Return the error that says how the process has ended."""
        code, num_looks = _reaped(self._process, self._pidfd), 0
        # A thread that starts a process reaps all that have ended; it tells the code a bit later.
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
        children: Who may send it.
        timeout_s: How long to wait, to the second; None is as long as they live.

    Raises:
        WorkerDiedError: A child has ended, and everything it had sent was received.
        LoaderError: This is a fork of the children's parent, or the time is over.
    """
    for child in children:
        child.check_owner()
    end_s = math.inf if timeout_s is None else time.monotonic() + timeout_s
    while True:
        # Asked before the sockets are looked at: a child that had ended then has said all.
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
    """Return the error of workers that have not sent what was waited for."""
    return LoaderError(
        f"expected a batch within {timeout_s:g} s, the workers live and have sent none; raise"
        " timeout if samples take that long"
    )


def _reaped(process: BaseProcess, pidfd: int) -> int | None:
    """Wait for the end of a process, but not for ever, and return its exit code."""
    # Not with ``join``, which waits until a pipe closes that any other fork may have a copy of.
    poll([pidfd], int(_JOIN_S * 1000))
    code = process.exitcode
    process.join(0)
    return code


def _end(process: BaseProcess, connection: socket.socket, pidfd: int, owner: int) -> None:
    # A later fork has a copy of this, and must not kill what is its sibling.
    if os.getpid() == owner:
        process.kill()
        _reaped(process, pidfd)
    connection.close()
    os.close(pidfd)

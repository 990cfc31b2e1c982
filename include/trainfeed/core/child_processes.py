"""The parent's side of child processes: start, "message or death?", how they ended, their end.

Four kinds of children stand on this module: workers of a loader, forks that read ahead, workers of
a build, and ranks of a training. Each adds its messages and the errors that its users get.
"""

from __future__ import annotations

import math
import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, Final, Protocol, TypeVar

from trainfeed.core.memory_group import KillCount
from trainfeed.core.process_ties import ending, is_stopped, program

# More than one, because Ctrl-Z stops parent and children together, and the parent may continue
# first.
_STOPPED_LOOKS: Final = 3


def poll(fds: Sequence[int], wait_s: float | None) -> list[int]:
    """Wait until any of the descriptors is readable or closed; return those that are.

    Args:
        fds: The descriptors, also those above 1023, which ``select`` refuses.
        wait_s: Longest wait in seconds; None for no limit.
    """
    poller = select.poll()
    for fd in fds:
        poller.register(fd, select.POLLIN)
    return [fd for fd, _ in poller.poll(None if wait_s is None else 1000 * wait_s)]


class ChildProcess:
    """A process that this one has started.

    Args:
        pid: Its process id.
        kills: The count of kills for want of memory from before its start; None counts from here.

    Attributes:
        pid: As above.
        owner: Id of the process that started it; a fork of that one leaves the child alone.
        kills: As above.

    Raises:
        OSError: The process cannot be watched, for want of a descriptor; the caller ends it.
    """

    def __init__(self, pid: int, kills: KillCount | None = None) -> None:
        self.pid = pid
        self.owner = os.getpid()
        self.kills = kills or KillCount()
        # Unlike a process id, this descriptor never refers to a later process.
        self._pidfd = os.pidfd_open(pid)
        self._num_stopped = 0

    def fileno(self) -> int:
        """Return a descriptor that becomes readable when the process has ended."""
        return self._pidfd

    def has_ended(self, wait_s: float = 0.0) -> bool:
        """Return whether the process has ended, or ends within a time; does not reap it.

        Its last messages may not be received yet.
        """
        return bool(poll([self._pidfd], wait_s))

    def stays_stopped(self) -> bool:
        """Return whether this call and the two before it found the process stopped by a signal."""
        self._num_stopped = self._num_stopped + 1 if is_stopped(self.pid) else 0
        return self._num_stopped >= _STOPPED_LOOKS

    def ending(self, status: int | None) -> str:
        """Return how the process has ended, as ``process_ties.ending`` does."""
        return ending(status, self.kills.has_grown())

    def release(self) -> None:
        """Close the descriptor; safe to call twice."""
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


class MessagingChild(Protocol):
    """A child process that sends messages."""

    def fileno(self) -> int:
        """See ``ChildProcess``."""

    def has_ended(self) -> bool:
        """See ``ChildProcess``."""

    def try_receive(self) -> Any:
        """Return the next message, or None if none has arrived."""

    def message_fds(self) -> list[int]:
        """Return what is readable when a message has arrived; empty when none comes any more."""

    def death(self) -> Exception:
        """Return the error for a process that has ended with its messages received."""


_Child = TypeVar("_Child", bound=MessagingChild)


def next_message(
    children: Sequence[_Child], wait_s: float | None, needed: Sequence[_Child] | None = None
) -> tuple[_Child, Any] | None:
    """Wait for a message of any child, or the death of one that is needed.

    Args:
        children: The processes to receive from.
        wait_s: Longest wait in seconds; None for no limit.
        needed: Those whose death is an error; None for all.

    Returns:
        The child and its message; None if nothing has come.

    Raises:
        Exception: The error ``death`` of a needed child that ended, when no messages are left.
    """
    needed = children if needed is None else needed
    end_s = math.inf if wait_s is None else time.monotonic() + wait_s
    while True:
        # Checked before messages are received: a child that has ended by now, or has closed its
        # end, sends nothing more, so none is missing when there is none then.
        ended = [child for child in needed if child.has_ended() or not child.message_fds()]
        for child in children:
            if (message := child.try_receive()) is not None:
                return child, message
        if ended:
            raise ended[0].death()
        ends = [child.fileno() for child in needed]
        fds = [fd for child in children for fd in child.message_fds()]
        if not all(child.message_fds() for child in needed):
            continue
        # The time is looked at in every round: what a child prints may wake this call without end.
        left_s = end_s - time.monotonic()
        if left_s <= 0.0 or not poll([*ends, *fds], None if wait_s is None else left_s):
            return None


class ProgramChild(ChildProcess):
    """A new interpreter that calls ``main`` of a module and is asked through a connection.

    Ctrl-C, which reaches all processes of a terminal, does not end it: it begins with the signal
    blocked, and ``process_ties.leave_interrupts`` ignores it from then on.

    Args:
        module: Name of the module; its ``main`` gets the descriptor of its end of the connection,
            those of ``fds``, the id of this process, and ``arguments``.
        *arguments: Further arguments of ``main``.
        fds: Descriptors of which the child gets copies, as of memory that both share.
        executable: See ``program``.
        **options: Further arguments of ``subprocess.Popen``.

    Raises:
        OSError: The process cannot be started or watched; no process and no descriptor stays.
    """

    def __init__(
        self,
        module: str,
        *arguments: int | str,
        fds: Sequence[int] = (),
        executable: str = "",
        **options: Any,
    ) -> None:
        kills = KillCount()
        ours, theirs = Pipe()
        with ExitStack() as undo:
            undo.callback(ours.close)
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                passed = [theirs.fileno(), *fds]
                self.process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                    program(module, [*passed, os.getpid(), *arguments], executable),
                    stdin=subprocess.DEVNULL,
                    pass_fds=passed,
                    **options,
                )
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                # Without this copy, the end of the child ends the connection.
                theirs.close()
            undo.callback(self.process.wait)
            undo.callback(self.process.kill)
            super().__init__(self.process.pid, kills)
            undo.pop_all()
        self.connection: Connection[Any, Any] = ours
        self._is_silent = False

    def try_receive(self) -> Any:
        """Return the next message, or None if none has arrived."""
        if self._is_silent or not poll([self.connection.fileno()], 0.0):
            return None
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            # The other end is closed, and stays readable.
            self._is_silent = True
            return None

    def message_fds(self) -> list[int]:
        """Return what is readable when a message has arrived; empty when none comes any more."""
        return [] if self._is_silent else [self.connection.fileno()]

    def release(self) -> None:
        """Close the connection and the descriptor; safe to call twice."""
        self.connection.close()
        super().release()

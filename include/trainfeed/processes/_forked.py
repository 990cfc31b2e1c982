"""The child's side of a child process: serves the parent, and ends with it."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import select
import signal
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from trainfeed.process_ties import portable
from trainfeed.processes._message import MessageKind, send_message

__all__ = [
    "CREDIT",
    "Service",
    "global_numbers",
    "hand_over_numbers",
    "poll",
    "run",
    "send_error",
    "take_credits",
]

# The work of a child: exchanges messages over the socket, and returns at the end.
Service = Callable[[socket.socket], None]

# Number of units handed on: u32 LE. Parents send these packets to passes that read ahead.
CREDIT: Final = struct.Struct("<I")
# Makes other seeds than the numbers of a child and its pass, which are two.
_HANDED_OVER: Final = 1


def run(
    service: Service,
    connection: socket.socket,
    other: socket.socket,
    key: tuple[int, int],
    random_state: tuple[Any, ...],
) -> None:
    """Run a child process: prepare it, then serve the parent."""
    # The parent held this lock during the fork.
    global_numbers().release()
    # The child's copy of the parent's side would keep the connection open after the parent's end.
    other.close()
    # A handler of the parent's program must not run in the child.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # Ctrl-C reaches the whole process group; the parent ends its children itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_watch_parent, daemon=True).start()
    _seed(key, random_state)
    try:
        service(connection)
    except BaseException as error:  # noqa: BLE001 (every exception is sent to the parent)
        send_error(connection, error)


def global_numbers() -> threading.Lock:
    """Return the lock of numpy's global random generator."""
    lock: threading.Lock = np.random.get_bit_generator().lock  # type: ignore[attr-defined]
    return lock


def take_credits(connection: socket.socket, release: Callable[[int], None]) -> None:
    """Pass the parent's credits to ``release`` until it is gone; runs in a thread of the child."""
    while credit := connection.recv(CREDIT.size):
        release(CREDIT.unpack(credit)[0])


def send_error(connection: socket.socket, error: BaseException) -> None:
    """Send an exception with its traceback to the parent, unless the parent is gone."""
    with contextlib.suppress(OSError):
        send_message(connection, MessageKind.ERROR, portable(error, "raised in process"))


def poll(fds: Sequence[int], timeout_ms: int) -> list[tuple[int, int]]:
    """Wait until one of the descriptors is readable."""
    poller = select.poll()
    for fd in fds:
        poller.register(fd, select.POLLIN)
    return poller.poll(timeout_ms)


def _watch_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        with contextlib.suppress(OSError):
            poll([os.pidfd_open(parent.pid or 0)], -1)
    # Ends the process at once, also while the main thread blocks in a reader.
    os._exit(1)


def hand_over_numbers() -> None:
    """Let the global random generators go on with other numbers than children that were forked.

    The first child of a first pass goes on with the numbers of this process. If this process kept
    them, the first child of the next reader would draw the same ones again.
    """
    random.seed(f"{random.getrandbits(64)} handed over")
    np.random.seed([np.random.randint(1 << 31), _HANDED_OVER])  # noqa: NPY002 (users draw from it)


def _seed(key: tuple[int, int], random_state: tuple[Any, ...]) -> None:
    """Set the random generators: the parent's state for key ``(0, 0)``, its own for others."""
    # ``random`` is reseeded after every fork, so the parent's state is passed on. numpy's
    # generator is copied by the fork.
    random.setstate(random_state)
    if any(key):
        random.seed(f"{random.getrandbits(64)} {key}")
        np.random.seed([np.random.randint(1 << 31), *key])  # noqa: NPY002 (users' code draws from it)

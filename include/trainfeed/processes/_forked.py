"""The child's side of a child process: it serves, and ends when its parent does."""

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

__all__ = ["CREDIT", "Service", "global_numbers", "poll", "run", "send_error", "take_credits"]

# What a child does: it talks through the socket and returns when it is done.
Service = Callable[[socket.socket], None]

# So many units were handed on; the only thing that parents send beside messages.
CREDIT: Final = struct.Struct("<I")


def run(
    service: Service,
    connection: socket.socket,
    other: socket.socket,
    key: tuple[int, int],
    random_state: tuple[Any, ...],
) -> None:
    """Serve the parent: what a child process runs."""
    global_numbers().release()
    other.close()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # Ctrl-C reaches the whole group; the parent decides what becomes of its children.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_watch_parent, daemon=True).start()
    _seed(key, random_state)
    try:
        service(connection)
    except BaseException as error:  # noqa: BLE001 (whatever it is, it is the parent's)
        send_error(connection, error)


def global_numbers() -> threading.Lock:
    """Return the lock of numpy's global random generator."""
    lock: threading.Lock = np.random.get_bit_generator().lock  # type: ignore[attr-defined]
    return lock


def take_credits(connection: socket.socket, release: Callable[[int], None]) -> None:
    """Pass on what ``give_back`` tells, until the parent is gone; for a thread of the child."""
    while credit := connection.recv(CREDIT.size):
        release(CREDIT.unpack(credit)[0])


def send_error(connection: socket.socket, error: BaseException) -> None:
    """Send an exception with its traceback to the parent, unless that is gone."""
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
    os._exit(1)


def _seed(key: tuple[int, int], random_state: tuple[Any, ...]) -> None:
    """Continue the parent's random generators in one child, and start others in the rest."""
    random.setstate(random_state)
    if any(key):
        random.seed(f"{random.getrandbits(64)} {key}")
        np.random.seed([np.random.randint(1 << 31), *key])  # noqa: NPY002 (what users' code draws from)

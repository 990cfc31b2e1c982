"""The child's side of a child process, and the messages that it and its parent send."""

from __future__ import annotations

import contextlib
import mmap
import multiprocessing
import os
import pickle  # noqa: TID251 (between a process and its own child, never stored)
import random
import resource
import signal
import socket
import struct
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple

import numpy as np

from trainfeed.core.child_processes import poll
from trainfeed.core.process_ties import leave_interrupts, portable
from trainfeed.errors import LoaderError
from trainfeed.readers.ahead.threads import Channel, fill, start_thread

# --- Sends Python objects through a socket, and large ones through anonymous shared memory

_HEADER: Final = struct.Struct("<BIQ")
_LENGTH: Final = struct.Struct("<Q")
# Larger bodies would fill the socket's buffer; smaller ones are not worth the system calls of a
# memory file.
_MAX_INLINE_BYTES: Final = 32 << 10
# Smaller buffers stay in the pickle: a copy costs less than an entry of its own.
_MIN_BUFFER_BYTES: Final = 1 << 10
# One cache line, counted from the start of the body: arrays in memory files are aligned to it.
_ALIGNMENT_BYTES: Final = 64
# writev takes at most IOV_MAX = 1024 parts.
_MAX_PARTS: Final = 512

# Memory of received messages that is still in use; each mapping holds a descriptor.
_mapped: Final[weakref.WeakSet[mmap.mmap]] = weakref.WeakSet()


class MessageKind(IntEnum):
    """Kinds of messages: items, the end of a pass, or its error."""

    ITEMS = 1
    END = 2
    ERROR = 3


class Message(NamedTuple):
    """A received message.

    Attributes:
        kind: Kind of the message.
        units: Units that the items take; in an answer, the units given back.
        content: The object. Its arrays lie in memory of this message alone, which lives as long as
            any of them. The sender no longer has that memory.
    """

    kind: MessageKind
    units: int
    content: Any


def send_message(sender: socket.socket, kind: MessageKind, content: Any, *, units: int = 0) -> None:
    """Send an object; blocks while the socket is full."""
    parts = _parts(content)
    num_bytes = sum(len(part) for part in parts)
    header = _HEADER.pack(kind, units, num_bytes)
    if num_bytes <= _MAX_INLINE_BYTES:
        sender.sendmsg([header, *parts])
        return
    fd = os.memfd_create("trainfeed", os.MFD_CLOEXEC)
    try:
        _write(fd, parts)
        # The kernel keeps a reference to the file while the packet is on its way, so closing the
        # descriptor here is safe.
        socket.send_fds(sender, [header], [fd])
    finally:
        os.close(fd)


def receive_message(receiver: socket.socket, flags: int = 0) -> Message | None:
    """Receive an object; None when the other side is gone.

    Raises:
        LoaderError: This process may open no more descriptors.
        BlockingIOError: No message has arrived, and ``flags`` contain ``MSG_DONTWAIT``.
    """
    packet = bytearray(_HEADER.size + _MAX_INLINE_BYTES)
    ancillary_bytes = socket.CMSG_SPACE(4)
    flags |= socket.MSG_CMSG_CLOEXEC
    num_bytes, ancillary, _, _ = receiver.recvmsg_into([packet], ancillary_bytes, flags)
    # A message has a header, so an empty packet is the end of the connection.
    if not num_bytes:
        return None
    kind, units, body_bytes = _HEADER.unpack_from(packet)
    if body_bytes <= _MAX_INLINE_BYTES:
        # The content refers to this buffer: only the bytes of the body may stay alive.
        del packet[num_bytes:]
        return Message(MessageKind(kind), units, _content(memoryview(packet)[_HEADER.size :]))
    # The kernel drops a descriptor that the process may not open, and delivers the packet.
    if not ancillary:
        raise LoaderError(
            "expected a descriptor with a worker's message, got none: this process may open no"
            " more files; raise the limit (ulimit -n)"
        )
    fd = int.from_bytes(ancillary[0][2][:4], "little")
    try:
        body = _body(fd, body_bytes)
    finally:
        os.close(fd)
    return Message(MessageKind(kind), units, _content(body))


def _body(fd: int, num_bytes: int) -> memoryview:
    """Return the content of a memory file: a mapping of it, or a copy if many are mapped already.

    A mapping holds a descriptor as long as any array in it lives.
    """
    # A quarter of the limit, so that the rest of the program can open files.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4
    if len(_mapped) < most:
        memory = mmap.mmap(fd, num_bytes)
        _mapped.add(memory)
        return memoryview(memory)
    copy = bytearray(num_bytes)
    position = 0
    while position < num_bytes:
        position += os.preadv(fd, [memoryview(copy)[position:]], position)
    return memoryview(copy)


def _parts(content: Any) -> list[bytes | memoryview]:
    buffers: list[memoryview] = []

    def keep_in_band(buffer: pickle.PickleBuffer) -> bool:
        view = buffer.raw()
        # True keeps the buffer in the pickle, False sends it as a buffer of its own.
        if view.nbytes < _MIN_BUFFER_BYTES:
            return True
        buffers.append(view)
        return False

    pickled = pickle.dumps(content, protocol=5, buffer_callback=keep_in_band)
    lengths = [len(buffers), len(pickled), *map(len, buffers)]
    parts: list[bytes | memoryview] = [b"".join(map(_LENGTH.pack, lengths)), pickled]
    position = len(parts[0]) + len(pickled)
    for buffer in buffers:
        padding = -position % _ALIGNMENT_BYTES
        parts += [bytes(padding), buffer]
        position += padding + len(buffer)
    return parts


def _content(body: memoryview) -> Any:
    num_buffers, pickle_bytes = struct.unpack_from("<2Q", body)
    # 16 bytes: the two counts before the lengths.
    lengths = struct.unpack_from(f"<{num_buffers}Q", body, 16)
    start = 16 + 8 * num_buffers
    position = start + pickle_bytes
    buffers = []
    for length in lengths:
        position += -position % _ALIGNMENT_BYTES
        buffers.append(body[position : position + length])
        position += length
    return pickle.loads(body[start : start + pickle_bytes], buffers=buffers)  # noqa: S301


def _write(fd: int, parts: Sequence[bytes | memoryview]) -> None:
    rest = [memoryview(part) for part in parts if len(part)]
    while rest:
        # writev may write less than asked, so whole and partly written parts are removed.
        written = os.writev(fd, rest[:_MAX_PARTS])
        while rest and written >= len(rest[0]):
            written -= len(rest.pop(0))
        if written:
            rest[0] = rest[0][written:]


# --- The child's side of a child process: serves the parent, and ends with it

# The work of a child: exchanges messages over the socket, and returns at the end.
Service = Callable[[socket.socket], None]

# Number of units handed on: u32 LE. Parents send these packets to passes that read ahead.
CREDIT: Final = struct.Struct("<I")
# Makes other seeds than the numbers of a child and its pass, which are two.
_RESEEDED: Final = 1


def run(
    service: Service,
    connection: socket.socket,
    other: socket.socket,
    key: tuple[int, int],
    random_state: tuple[Any, ...],
) -> None:
    """Run a child process: prepare it, then serve the parent."""
    # The parent held this lock during the fork.
    numpy_random_lock().release()
    # The child's copy of the parent's side would keep the connection open after the parent's end.
    other.close()
    # A handler of the parent's program must not run in the child.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    leave_interrupts()
    threading.Thread(target=_watch_parent, daemon=True).start()
    _seed(key, random_state)
    try:
        service(connection)
    except BaseException as error:  # noqa: BLE001 (every exception is sent to the parent)
        send_error(connection, error)


def numpy_random_lock() -> threading.Lock:
    """Return the lock of numpy's global random generator."""
    lock: threading.Lock = np.random.get_bit_generator().lock  # type: ignore[attr-defined]
    return lock


def send_error(connection: socket.socket, error: BaseException) -> None:
    """Send an exception with its traceback to the parent, unless the parent is gone."""
    with contextlib.suppress(OSError):
        send_message(connection, MessageKind.ERROR, portable(error, "raised in process"))


def _watch_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        with contextlib.suppress(OSError):
            poll([os.pidfd_open(parent.pid or 0)], None)
    # Ends the process at once, also while the main thread blocks in a reader.
    os._exit(1)


def reseed_parent() -> None:
    """Let the global random generators go on with other numbers than forked children have.

    The first child of a first pass goes on with the numbers of this process. If this process kept
    them, the first child of the next reader would draw the same ones again.
    """
    random.seed(f"{random.getrandbits(64)} handed over")
    np.random.seed([np.random.randint(1 << 31), _RESEEDED])  # noqa: NPY002 (users draw from it)


def _seed(key: tuple[int, int], random_state: tuple[Any, ...]) -> None:
    """Set the random generators: the parent's state for key ``(0, 0)``, its own for others."""
    # ``random`` is reseeded after every fork, so the parent's state is passed on. numpy's
    # generator is copied by the fork.
    random.setstate(random_state)
    if any(key):
        random.seed(f"{random.getrandbits(64)} {key}")
        np.random.seed([np.random.randint(1 << 31), *key])  # noqa: NPY002 (users' code draws from it)


# --- A pass that a child process reads ahead of its consumer


class Pass:
    """The service of a child that reads a pass: it sends items, then their end or an error.

    The main thread reads, one thread sends, and one receives credits.

    Args:
        read: Starts the pass.
        size: Maximal number of items ahead of the credits, 1 or more.
        max_per_message: Maximal number of items in one message.
    """

    def __init__(self, read: Callable[[], Iterator[Any]], size: int, max_per_message: int) -> None:
        self._read = read
        self._size = size
        self._max_per_message = max_per_message

    def __call__(self, connection: socket.socket) -> None:
        """Serve the parent until the pass has ended."""
        channel: Channel[Any] = Channel(self._size)
        start_thread(_take_credits, connection, channel.release)
        sender = start_thread(_send, channel, connection, self._max_per_message)
        fill(channel, self._read)
        sender.join()


def _take_credits(connection: socket.socket, release: Callable[[int], None]) -> None:
    while credit := connection.recv(CREDIT.size):
        release(CREDIT.unpack(credit)[0])


def _send(channel: Channel[Any], connection: socket.socket, max_per_message: int) -> None:
    try:
        while items := channel.take(max_per_message):
            send_message(connection, MessageKind.ITEMS, items, units=len(items))
        send_message(connection, MessageKind.END, None)
    except BaseException as error:  # noqa: BLE001 (errors of the reader or of pickling a sample)
        channel.close()
        send_error(connection, error)

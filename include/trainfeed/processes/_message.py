"""Python objects through a socket, large buffers through anonymous shared memory.

A message is one packet, and for anything large a memory file whose descriptor travels with it::

    packet  := header body?                      (the body is in the memory file if there is none)
    header  := kind u8, units u32, body_bytes u64
    body    := num_buffers u64, pickle_bytes u64, buffer_bytes u64*, pickle, (padding buffer)*

A memory file has no name: the kernel frees it when the last descriptor and mapping are gone, also
after SIGKILL.
"""

from __future__ import annotations

import mmap
import os
import pickle  # noqa: TID251 (between a process and its own child, never stored)
import resource
import socket
import struct
import weakref
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple

from trainfeed.errors import LoaderError

__all__ = ["Message", "MessageKind", "receive_message", "send_message"]

_HEADER: Final = struct.Struct("<BIQ")
_LENGTH: Final = struct.Struct("<Q")
# Packets share the socket's buffer; memory files cost some system calls each.
_MAX_INLINE_BYTES: Final = 32 << 10
# Copying a smaller buffer costs less than an entry for it.
_MIN_BUFFER_BYTES: Final = 1 << 10
_ALIGNMENT_BYTES: Final = 64
_MAX_PARTS: Final = 512

_mapped: Final[weakref.WeakSet[mmap.mmap]] = weakref.WeakSet()


class MessageKind(IntEnum):
    """What a message means."""

    ITEMS = 1
    END = 2
    ERROR = 3


class Message(NamedTuple):
    """What came through a socket.

    Attributes:
        kind: What it means.
        units: How many units its items take; those of an answer say how many are given back.
        content: The object. Arrays in it lie in the message's own memory, which lives as long as
            any of them; it is shared with nobody once it is received.
    """

    kind: MessageKind
    units: int
    content: Any


def send_message(sender: socket.socket, kind: MessageKind, content: Any, *, units: int = 0) -> None:
    """Send an object; waits while the socket is full."""
    parts = _parts(content)
    num_bytes = sum(len(part) for part in parts)
    header = _HEADER.pack(kind, units, num_bytes)
    if num_bytes <= _MAX_INLINE_BYTES:
        sender.sendmsg([header, *parts])
        return
    fd = os.memfd_create("trainfeed", os.MFD_CLOEXEC)
    try:
        _write(fd, parts)
        socket.send_fds(sender, [header], [fd])
    finally:
        os.close(fd)


def receive_message(receiver: socket.socket, flags: int = 0) -> Message | None:
    """Receive an object; None when the other side is gone.

    Raises:
        LoaderError: This process has no descriptor left.
        BlockingIOError: Nothing is there, and ``flags`` say not to wait.
    """
    packet = bytearray(_HEADER.size + _MAX_INLINE_BYTES)
    ancillary_bytes = socket.CMSG_SPACE(4)
    flags |= socket.MSG_CMSG_CLOEXEC
    num_bytes, ancillary, _, _ = receiver.recvmsg_into([packet], ancillary_bytes, flags)
    if not num_bytes:
        return None
    kind, units, body_bytes = _HEADER.unpack_from(packet)
    if body_bytes <= _MAX_INLINE_BYTES:
        del packet[num_bytes:]
        return Message(MessageKind(kind), units, _content(memoryview(packet)[_HEADER.size :]))
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
    """Return what a memory file holds: the file itself, or a copy if there are many already.

    A mapping keeps a descriptor as long as anything refers to what lies in it.
    """
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
        written = os.writev(fd, rest[:_MAX_PARTS])
        while rest and written >= len(rest[0]):
            written -= len(rest.pop(0))
        if written:
            rest[0] = rest[0][written:]

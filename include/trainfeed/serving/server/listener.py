"""The listening socket of a server: connections are bounded before any byte of TLS."""

from __future__ import annotations

import asyncio
import ipaddress
import select
import socket
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from trainfeed.serving.server.settings import Limits

# Key of the ASGI scope: the connection of a request.
CONNECTION: Final = "trainfeed.connection"

_BACKLOG: Final = 2048
# A connection that was told to end is closed by the loop within a few of its rounds.
_LEAVING_SECONDS: Final = 1.0
# Time that the last bytes of an answer have to go out after a connection was closed here.
_CLOSING_SECONDS: Final = 5.0
# Connections that are refused before the loop does other work.
_REFUSED_AT_ONCE: Final = 64

_TEXT: Final = (
    b'{"error": "Overloaded", "expected": "fewer connections at once", "got": "one more",'
    b' "remedy": "wait as Retry-After says"}'
)
_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n"
    b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(_TEXT), _TEXT)
)


class Connection(socket.socket):
    """An accepted connection, which its door counts until it is closed.

    Attributes:
        address: Whom the connection counts for; see ``caller_address``.
        is_known: Whether a request with a valid token came on it.
        is_in_work: Whether such a request is in work.
        since: Time of a monotonic clock at which it was accepted, or its last request ended.
    """

    door: Door
    address: str = "-"
    is_known = False
    is_in_work = False
    since = 0.0
    number = -1
    left: float | None = None
    transport: asyncio.Transport | None = None

    def close(self) -> None:
        """Close the socket; its place is free."""
        super().close()
        self.door.forget(self)

    def begin(self) -> None:
        """Say that a request with a valid token is in work."""
        self.is_in_work = True

    def end(self) -> None:
        """Say that no request is in work."""
        self.is_in_work, self.since = False, time.monotonic()

    def leave(self) -> None:
        """End the connection; the loop closes the socket."""
        self.left = time.monotonic()
        if self.transport is not None:
            self.transport.abort()
            return
        # The socket belongs to a transport that nobody has yet: it reads an end, and closes.
        with suppress(OSError):
            self.shutdown(socket.SHUT_RDWR)


class Door(socket.socket):
    """A listening socket within limits. For one loop.

    Attributes:
        given_way: Connections that ended to make room for others.
        refused: Connections that were refused, because all others had a request in work.
    """

    _limits: Limits
    _is_tls: bool
    _open: dict[int, Connection]
    given_way: int
    refused: int

    @classmethod
    def opened(cls, host: str, port: int, limits: Limits, *, is_tls: bool) -> Door:
        """Return the socket that listens on an address.

        Raises:
            OSError: The address cannot be listened on.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # With the protocol named, asyncio sets TCP_NODELAY: a small answer does not wait 40 ms for
        # an acknowledgement of its head.
        door = cls(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        door._limits, door._is_tls = limits, is_tls
        door._open, door.given_way, door.refused = {}, 0, 0
        try:
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            door.bind((host, port))
            door.listen(_BACKLOG)
        except BaseException:
            door.close()
            raise
        return door

    @property
    def num_open(self) -> int:
        """Connections that are open now."""
        return len(self._open)

    def accept(self) -> tuple[socket.socket, Any]:
        """Return the next connection that there is room for.

        Raises:
            BlockingIOError: There is none, or another one has to end before.
        """
        for _ in range(_REFUSED_AT_ONCE):
            # Nobody gives way before somebody else is there.
            if self._is_tight() and (not self._has_next() or self._must_wait()):
                raise BlockingIOError
            plain, address = super().accept()
            connection = Connection(
                self.family, socket.SOCK_STREAM, socket.IPPROTO_TCP, plain.detach()
            )
            connection.door, connection.address = self, caller_address(address[0])
            if self.num_open < self._limits.connections:
                connection.since, connection.number = time.monotonic(), connection.fileno()
                self._open[connection.number] = connection
                return connection, address
            self._refuse(connection)
        raise BlockingIOError

    def made(self, transport: asyncio.Transport) -> Connection | None:
        """Return the connection of a transport, whose handshake has ended."""
        found = self._open.get(transport.get_extra_info("socket").fileno())
        if found is not None:
            found.transport, found.since = transport, time.monotonic()
        return found

    def forget(self, connection: Connection) -> None:
        """Free the place of a connection that was closed."""
        self._open.pop(connection.number, None)

    def look(self) -> None:
        """End handshakes that take too long, and connections whose last bytes nobody reads."""
        now = time.monotonic()
        for each in list(self._open.values()):
            if each.transport is None:
                if now - each.since > self._limits.handshake_seconds:
                    each.leave()
            elif each.transport.is_closing():
                each.left = now if each.left is None else each.left
                if now - each.left > _CLOSING_SECONDS:
                    each.transport.abort()

    def _is_tight(self) -> bool:
        """Return whether one more connection may be one too many."""
        return self.num_open >= min(self._limits.connections, self._limits.handshakes)

    def _has_next(self) -> bool:
        waiting = select.poll()
        waiting.register(self, select.POLLIN)
        return bool(waiting.poll(0))

    def _must_wait(self) -> bool:
        """Make room for one connection; return whether it is not free yet."""
        idle = [each for each in self._open.values() if not each.is_in_work]
        now = time.monotonic()
        is_full = self.num_open >= self._limits.connections
        unready = [each for each in idle if each.transport is None]
        if not is_full and len(unready) < self._limits.handshakes:
            return False
        crowd = idle if is_full else unready
        if any(each.left is not None and now - each.left < _LEAVING_SECONDS for each in crowd):
            return True
        unknown = [each for each in crowd if not each.is_known]
        victim = _first_to_leave(unknown or crowd)
        if victim is None:
            return False
        self.given_way += 1
        victim.leave()
        return True

    def _refuse(self, connection: socket.socket) -> None:
        self.refused += 1
        with connection, suppress(OSError):
            connection.setblocking(False)
            if not self._is_tls:
                connection.send(_FULL)


def _first_to_leave(crowd: Iterable[Connection]) -> Connection | None:
    """Return the oldest connection of the address that has the most."""
    staying = [each for each in crowd if each.left is None]
    counts = Counter(each.address for each in staying)
    return min(staying, key=lambda each: (-counts[each.address], each.since), default=None)


def caller_address(host: str) -> str:
    """Return what an address counts as: of IPv6 the network of one site, as one host has it all."""
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if not isinstance(found, ipaddress.IPv6Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))

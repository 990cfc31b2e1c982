"""Connections of a server: bounded in number, closed if the headers of a request do not come.

A connection reads into memory that is chosen for each read. Usually that is memory of all
connections, whose bytes are copied to the parser; the rest of a large body goes straight into the
memory of its handler, decrypted once and copied nowhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from trainfeed.server._body import FILL
from trainfeed.server._guard import PEER
from trainfeed.server._server_settings import Limits
from trainfeed.server.access import common_name

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application

__all__ = ["bounded_protocol"]

_TEXT: Final = (
    b'{"error": "Overloaded", "expected": "fewer connections at once", "got": "one more",'
    b' "remedy": "wait as Retry-After says"}'
)
_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n"
    b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(_TEXT), _TEXT)
)


# The loop fills it and hands it over in one step, so all connections share it.
_SHARED: Final = memoryview(bytearray(256 << 10))
_HEADER_READ: Final = 4 << 10


class BoundedProtocol(H11Protocol, asyncio.BufferedProtocol):
    """A connection; uvicorn makes one per client. ``bounded_protocol`` sets the limits."""

    limits: ClassVar[Limits]
    _headers_due: asyncio.TimerHandle | None = None
    _lent: memoryview | None = None
    _filled: asyncio.Future[None] | None = None
    _count: Callable[[int], object]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection, or answer that there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            transport.write(_FULL)
            transport.close()
            return
        self._name_peer(transport)
        self._await_headers()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Return the memory for the next bytes."""
        if self._lent is not None:
            return self._lent
        # The parser bounds headers only between two reads, so these are small until they end.
        return _SHARED[:_HEADER_READ] if self.conn.their_state is h11.IDLE else _SHARED

    def buffer_updated(self, nbytes: int) -> None:
        """Take bytes out of the memory that ``get_buffer`` returned."""
        if self._lent is None:
            self.data_received(bytes(_SHARED[:nbytes]))
        else:
            self._body_arrived(nbytes)

    async def fill(self, view: memoryview, count: Callable[[int], object]) -> None:
        """Read the rest of a body of known size; return early if the connection ends.

        Args:
            view: Memory of the size of the rest.
            count: Called with the size of each part that has come.
        """
        self._lent, self._count = view, count
        self._filled = self.loop.create_future()
        self.flow.resume_reading()
        try:
            await self._filled
        finally:
            self._lent = self._filled = None

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._forget_headers()
        super().connection_lost(exc)
        self._end_fill()

    def on_response_complete(self) -> None:
        """Await the next request; ``idle_seconds`` bounds the time until its first byte."""
        super().on_response_complete()
        self._forget_headers()

    def _body_arrived(self, nbytes: int) -> None:
        # The parser counts down what is left of the body, and has no public way to be told.
        reader: Any = self.conn._reader  # noqa: SLF001
        reader._remaining -= nbytes  # noqa: SLF001
        self._count(nbytes)
        self._lent = cast("memoryview", self._lent)[nbytes:]
        if not self._lent:
            self._lent = None
            self.handle_events()
            self._end_fill()

    def _end_fill(self) -> None:
        if self._filled is not None and not self._filled.done():
            self._filled.set_result(None)

    def _await_headers(self) -> None:
        """Close the connection later, unless the headers of the request end before."""
        if self.conn.their_state is not h11.IDLE:
            self._forget_headers()
        elif self._headers_due is None:
            seconds = self.limits.header_seconds
            self._headers_due = self.loop.call_later(seconds, self.transport.close)

    def _forget_headers(self) -> None:
        if self._headers_due is not None:
            self._headers_due.cancel()
            self._headers_due = None

    def _name_peer(self, transport: asyncio.Transport) -> None:
        tls: Any = transport.get_extra_info("ssl_object")
        peer = None if tls is None else common_name(tls.getpeercert())
        app: Any = self.app

        async def named(scope: dict[str, Any], receive: Any, send: Any) -> None:
            await app({**scope, PEER: peer, FILL: self.fill}, receive, send)

        self.app = cast("ASGI3Application", named)


def bounded_protocol(limits: Limits) -> type[asyncio.Protocol]:
    """Return the class of connections within limits, for uvicorn."""
    return type("BoundedProtocol", (BoundedProtocol,), {"limits": limits})

"""Connections of a server: bounded in number, closed if the headers of a request do not come."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from trainfeed.server._guard import PEER
from trainfeed.server._server_settings import Limits
from trainfeed.server._tls import common_name

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


class BoundedProtocol(H11Protocol):
    """A connection; uvicorn makes one per client. ``bounded_protocol`` sets the limits."""

    limits: ClassVar[Limits]
    _headers_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection, or answer that there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            transport.write(_FULL)
            transport.close()
            return
        self._name_peer(transport)
        self._await_headers()

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

    def on_response_complete(self) -> None:
        """Await the next request; ``idle_seconds`` bounds the time until its first byte."""
        super().on_response_complete()
        self._forget_headers()

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
            await app({**scope, PEER: peer}, receive, send)

        self.app = cast("ASGI3Application", named)


def bounded_protocol(limits: Limits) -> type[asyncio.Protocol]:
    """Return the class of connections within limits, for uvicorn."""
    return type("BoundedProtocol", (BoundedProtocol,), {"limits": limits})

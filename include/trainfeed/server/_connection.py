"""Connections of a server: closed if the headers of a request do not come, or are no HTTP.

A connection reads into memory that is chosen for each read. Usually that is memory of all
connections, whose bytes are copied to the parser; the rest of a large body goes straight into the
memory of its handler, decrypted once and copied nowhere.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from trainfeed.server._body import FILL
from trainfeed.server._door import CONNECTION, Connection, Door
from trainfeed.server._guard import PEER
from trainfeed.server._guarded_app import Front
from trainfeed.server._server_settings import Limits
from trainfeed.server.access import common_name

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application

__all__ = ["bounded_protocol"]

_READ: Final = 256 << 10
_HEADER_READ: Final = 4 << 10

# uvicorn warns of each request that is no HTTP, and of each that asks for a web socket. Callers
# without a token would write into the log at will; such requests are counted, errors are logged.
_log: Final = logging.getLogger("trainfeed.server.protocol")
_log.setLevel(logging.ERROR)

_NO_HTTP: Final = (
    b'{"error": "NoHttp", "expected": "a request of HTTP/1.1 within the limits of its headers",'
    b' "got": "other bytes", "remedy": "correct the client; nothing was used"}'
)


class BoundedProtocol(H11Protocol, asyncio.BufferedProtocol):
    """A connection; uvicorn makes one per client. ``bounded_protocol`` sets the limits."""

    limits: ClassVar[Limits]
    door: ClassVar[Door]
    front: ClassVar[Front]
    # The loop fills it and hands it over in one step, so all connections of one loop share it.
    shared: ClassVar[memoryview]
    _connection: Connection | None = None
    _headers_due: asyncio.TimerHandle | None = None
    _lent: memoryview | None = None
    _filled: asyncio.Future[None] | None = None
    _count: Callable[[int], object]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self.logger = _log
        self._connection = self.door.made(transport)
        self._name_peer(transport)
        self._await_headers()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Return the memory for the next bytes."""
        if self._lent is not None:
            return self._lent
        # The parser bounds headers only between two reads, so these are small until they end.
        return self.shared[:_HEADER_READ] if self.conn.their_state is h11.IDLE else self.shared

    def buffer_updated(self, nbytes: int) -> None:
        """Take bytes out of the memory that ``get_buffer`` returned."""
        if self._lent is None:
            self.data_received(bytes(self.shared[:nbytes]))
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

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """Answer bytes that are no HTTP, and close the connection."""
        self.front.count_no_http(self.client[0] if self.client else "-")
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            headers = [
                ("content-type", "application/json"),
                ("content-length", str(len(_NO_HTTP))),
                ("connection", "close"),
            ]
            head = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
            for event in (head, h11.Data(data=_NO_HTTP), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _body_arrived(self, nbytes: int) -> None:
        # The parser counts down what is left of the body, and has no public way to be told;
        # ``_name_peer`` offers this way only where the parser has what it needs.
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
            own: dict[str, Any] = {PEER: peer, CONNECTION: self._connection}
            if isinstance(getattr(self.conn._reader, "_remaining", None), int):  # noqa: SLF001
                own[FILL] = self.fill
            await app({**scope, **own}, receive, send)

        self.app = cast("ASGI3Application", named)


def bounded_protocol(limits: Limits, door: Door, front: Front) -> type[asyncio.Protocol]:
    """Return the class of the connections of one server, for uvicorn.

    Args:
        limits: Bounds of requests.
        door: The socket that accepts the connections.
        front: Counts peers that send no HTTP.
    """
    shared = memoryview(bytearray(_READ))
    own = {"limits": limits, "door": door, "front": front, "shared": shared}
    return type("BoundedProtocol", (BoundedProtocol,), own)

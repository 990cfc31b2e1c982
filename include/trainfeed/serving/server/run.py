"""Runs an app until SIGTERM or SIGINT, and closes connections that send no headers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import resource
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from trainfeed.errors import ConfigError
from trainfeed.files import UnfinishedFile
from trainfeed.serving.server.access import common_name, server_context
from trainfeed.serving.server.app import Front, front_of
from trainfeed.serving.server.body import FILL
from trainfeed.serving.server.guard import PEER
from trainfeed.serving.server.listener import CONNECTION, Connection, Door
from trainfeed.serving.server.settings import Limits, ServerSettings

if TYPE_CHECKING:
    import socket
    from types import FrameType

    from fastapi import FastAPI
    from uvicorn._types import ASGI3Application


# --- Connections of a server: closed if the headers of a request do not come, or are no HTTP

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


# --- Runs an app until SIGTERM or SIGINT, then answers what is in work, within a bound

_serve_log: Final = logging.getLogger("trainfeed.server")
# Descriptors of the loop, logs, token file, audit, and of what a process has open at its start.
_OTHER_DESCRIPTORS: Final = 64
_TICKS_OF_A_LOOK: Final = 10
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def serve(
    app: FastAPI,
    settings: ServerSettings,
    *,
    is_over: Callable[[], bool] = lambda: False,
    on_ready: Callable[[str], None] = lambda _: None,
    descriptors: int = 0,
) -> None:
    """Answer requests until SIGTERM or SIGINT, or until ``is_over`` says that all is done.

    ``on_ready`` is called with the address once the server answers. ``descriptors`` is the number
    of files that the routes open at once; the process is allowed as many, and all connections.

    New connections are refused then, requests in work have ``grace_seconds``, and the function
    returns. A second signal ends it at once.

    Raises:
        ConfigError: The address cannot be listened on, or a file of TLS is not usable.
        StorageError: The port file cannot be written.
    """
    context = server_context(settings)
    front = front_of(app)
    settings = replace(settings, limits=_within_descriptors(settings.limits, descriptors))
    with _listening(settings) as door:
        config = _configured(app, settings, door, front)
        config.load()
        config.ssl = context
        front.watch(door)
        server = _Server(
            config, is_over, lambda: _announce(door, settings, on_ready), (door.look, front.look)
        )
        server.run([door])
    if not server.started:
        raise ConfigError("the server could not start; its log names the reason")


class _Server(uvicorn.Server):
    """uvicorn, which announces that it answers, and returns after a signal."""

    def __init__(
        self,
        config: uvicorn.Config,
        is_over: Callable[[], bool],
        announce: Callable[[], None],
        looks: Sequence[Callable[[], None]],
    ) -> None:
        super().__init__(config)
        self._is_over = is_over
        self._announce = announce
        self._looks = looks

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS_OF_A_LOOK == 0:
            for look in self._looks:
                look()
        return await super().on_tick(counter) or self._is_over()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._announce()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn would raise the signal again at the end: a graceful end would look like a kill.
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self.force_exit = self.should_exit
        self.should_exit = True


def _within_descriptors(limits: Limits, own: int) -> Limits:
    """Allow the process the descriptors that the limits need, or return lower limits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.connections + own + _OTHER_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return limits
    connections = min(limits.connections, max(soft // 4, soft - own - _OTHER_DESCRIPTORS))
    _serve_log.warning(
        "expected to be allowed %d open files, got %d: the server takes %d connections at once;"
        " raise the limit of open files (ulimit -n)",
        wanted,
        soft,
        connections,
    )
    return replace(limits, connections=connections)


def _configured(app: FastAPI, settings: ServerSettings, door: Door, front: Front) -> uvicorn.Config:
    limits = settings.limits
    return uvicorn.Config(
        app,
        http=bounded_protocol(limits, door, front),
        ws="none",
        loop="asyncio",
        lifespan="on",
        access_log=False,
        log_config=None,
        proxy_headers=False,
        server_header=False,
        h11_max_incomplete_event_size=limits.header_bytes,
        timeout_keep_alive=math.ceil(limits.idle_seconds),
        timeout_graceful_shutdown=math.ceil(limits.grace_seconds),
    )


@contextlib.contextmanager
def _listening(settings: ServerSettings) -> Iterator[Door]:
    host, is_tls = settings.host.strip("[]"), settings.certificate is not None
    try:
        door = Door.opened(host, settings.port, settings.limits, is_tls=is_tls)
    except OSError as error:
        raise ConfigError(
            f"expected to listen on {settings.host}:{settings.port}, got"
            f" {error.strerror or error}; choose another address or port"
        ) from error
    with door:
        yield door


def _announce(
    listener: socket.socket, settings: ServerSettings, on_ready: Callable[[str], None]
) -> None:
    port = listener.getsockname()[1]
    if settings.port_file is not None:
        with UnfinishedFile(settings.port_file) as unfinished:
            unfinished.file.write(f"{port}\n".encode())
            unfinished.replace()
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    on_ready(f"{settings.scheme}://{host}:{port}")

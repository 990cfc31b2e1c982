"""Runs an app until SIGTERM or SIGINT, then answers what is in work, within a bound."""

from __future__ import annotations

import contextlib
import logging
import math
import resource
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import uvicorn

from trainfeed.errors import ConfigError
from trainfeed.paths import UnfinishedFile
from trainfeed.server._connection import bounded_protocol
from trainfeed.server._door import Door
from trainfeed.server._guarded_app import Front, front_of
from trainfeed.server._server_settings import Limits, ServerSettings
from trainfeed.server.access import server_context

if TYPE_CHECKING:
    import socket
    from types import FrameType

    from fastapi import FastAPI

__all__ = ["serve"]

_log: Final = logging.getLogger("trainfeed.server")
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
    _log.warning(
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

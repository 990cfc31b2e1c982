"""Runs an app until SIGTERM or SIGINT, then answers what is in work, within a bound."""

from __future__ import annotations

import contextlib
import math
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import uvicorn

from trainfeed.errors import ConfigError
from trainfeed.paths import UnfinishedFile
from trainfeed.server._connection import bounded_protocol
from trainfeed.server._server_settings import ServerSettings
from trainfeed.server.access import server_context

if TYPE_CHECKING:
    from types import FrameType

    from fastapi import FastAPI

__all__ = ["serve"]

_BACKLOG: Final = 2048
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def serve(
    app: FastAPI,
    settings: ServerSettings,
    *,
    is_over: Callable[[], bool] = lambda: False,
    on_ready: Callable[[str], None] = lambda _: None,
) -> None:
    """Answer requests until SIGTERM or SIGINT, or until ``is_over`` says that all is done.

    ``on_ready`` is called with the address once the server answers.

    New connections are refused then, requests in work have ``grace_seconds``, and the function
    returns. A second signal ends it at once.

    Raises:
        ConfigError: The address cannot be listened on, or a file of TLS is not usable.
        StorageError: The port file cannot be written.
    """
    context = server_context(settings)
    with _listening(settings) as listener:
        config = _configured(app, settings)
        config.load()
        config.ssl = context
        server = _Server(config, is_over, lambda: _announce(listener, settings, on_ready))
        server.run([listener])
    if not server.started:
        raise ConfigError("the server could not start; its log names the reason")


class _Server(uvicorn.Server):
    """uvicorn, which announces that it answers, and returns after a signal."""

    def __init__(
        self,
        config: uvicorn.Config,
        is_over: Callable[[], bool],
        announce: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._is_over = is_over
        self._announce = announce

    async def on_tick(self, counter: int) -> bool:
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


def _configured(app: FastAPI, settings: ServerSettings) -> uvicorn.Config:
    limits = settings.limits
    return uvicorn.Config(
        app,
        http=bounded_protocol(limits),
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
def _listening(settings: ServerSettings) -> Iterator[socket.socket]:
    host = settings.host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sets TCP_NODELAY: a small answer does not wait 40 ms for an
    # acknowledgement of its head.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    with listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, settings.port))
            listener.listen(_BACKLOG)
        except OSError as error:
            raise ConfigError(
                f"expected to listen on {settings.host}:{settings.port}, got"
                f" {error.strerror or error}; choose another address or port"
            ) from error
        yield listener


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

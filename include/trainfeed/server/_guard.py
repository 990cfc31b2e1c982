"""Stands before every route: token, scope, limits, errors as JSON, audit and metrics.

Written as plain ASGI, outside of the web framework: a route that is added later is behind the
guard too, and a body is counted while it comes in.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trainfeed.errors import ConfigError
from trainfeed.printable_text import printable
from trainfeed.server._audit import Audit
from trainfeed.server._body import BODY, Body
from trainfeed.server._guard_refusals import (
    closed,
    failed,
    overloaded,
    scope_missing,
    too_many,
    too_slow,
    unknown,
)
from trainfeed.server._http_refusal import Refusal
from trainfeed.server._metrics import Metrics
from trainfeed.server._rates import Rates
from trainfeed.server._server_settings import Limits
from trainfeed.server.access import Caller, TokenFile

__all__ = ["ABOUT", "CALLER", "FREE", "PEER", "REQUEST", "Guard"]

# Keys of the ASGI scope: common name of the peer's certificate, caller and number of a request, and
# what a handler adds to the audit.
PEER: Final = "trainfeed.peer"
CALLER: Final = "trainfeed.caller"
REQUEST: Final = "trainfeed.request"
ABOUT: Final = "trainfeed.about"
# The only path without a token.
FREE: Final = "/healthz"

_log: Final = logging.getLogger("trainfeed.server")
_MAX_PATH_CHARS: Final = 200
_MAX_ABOUT_CHARS: Final = 4096


@dataclass
class _Exchange:
    """One request and its answer, as far as they have come."""

    scope: Scope
    body: Body
    send: Send
    id: str = field(default_factory=lambda: secrets.token_hex(6))
    since: float = field(default_factory=time.monotonic)
    who: str = "-"
    status: int = 0
    outcome: str = ""
    bytes_out: int = 0

    async def pass_on(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if self.status >= 400:
                await self.body.drain()
            if not self.body.is_read:
                # What is left of the body would be taken for the next request.
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
        elif message["type"] == "http.response.body":
            self.bytes_out += len(message.get("body", b""))
        await self.send(message)

    async def refuse(self, refusal: Refusal) -> None:
        self.outcome = refusal.error
        if self.status:
            # The answer has begun; only an early end of the connection can tell that it is torn.
            raise refusal
        text = json.dumps(refusal.body(self.id)).encode()
        headers = {"content-type": "application/json", "content-length": str(len(text))}
        pairs = {**headers, **(refusal.headers or {})}.items()
        start = [(name.encode(), value.encode()) for name, value in pairs]
        status = refusal.status_code
        await self.pass_on({"type": "http.response.start", "status": status, "headers": start})
        await self.pass_on({"type": "http.response.body", "body": text})


class Guard:
    """Middleware that lets a request through to the app, or refuses it.

    Args:
        app: The app behind the guard.
        tokens: The callers.
        limits: Bounds of requests.
        audit: Gets a line per request, except requests for the state of health.
        metrics: Counts requests.
        scope_of: Returns the scope that a request needs; None if no route takes it.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        tokens: TokenFile,
        limits: Limits,
        audit: Audit,
        metrics: Metrics,
        scope_of: Callable[[Scope], str | None],
    ) -> None:
        self._app = app
        self._tokens = tokens
        self._limits = limits
        self._audit = audit
        self._metrics = metrics
        self._scope_of = scope_of
        self._rates = Rates(limits.requests_per_second, limits.burst)
        self._denials = Rates(limits.denials_per_second, limits.denials_per_second)
        self._in_work = 0
        _declare(metrics, audit, lambda: self._in_work)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; lifespan messages go to the app as they are."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        body = Body(scope, receive, self._limits.body_bytes)
        if scope["type"] != "http":
            await send({"type": "websocket.close"})  # no server of trainfeed has web sockets
            return
        exchange = _Exchange(scope, body, send)
        try:
            await self._answer(exchange)
        finally:
            self._record(exchange)

    async def _answer(self, exchange: _Exchange) -> None:
        # Outside of the count and of the time limit: the rest of a refused body may never come.
        # Its bound is that of ``Body.drain``, and the number of such requests that of connections.
        if (refusal := await self._refusal(exchange)) is not None:
            await exchange.refuse(refusal)

    async def _refusal(self, exchange: _Exchange) -> Refusal | None:
        """Let a request through; return why not, or why it has no answer, or None."""
        self._in_work += 1
        try:
            async with asyncio.timeout(self._limits.request_seconds):
                await self._admitted(exchange)
        except Refusal as refusal:
            return refusal
        except TimeoutError:
            return too_slow(self._limits.request_seconds)
        except Exception:  # noqa: BLE001 (one request fails, the server goes on)
            _log.exception("request %s failed", exchange.id)
            return failed()
        finally:
            self._in_work -= 1
        return None

    async def _admitted(self, exchange: _Exchange) -> None:
        scope = exchange.scope
        if scope["path"] != FREE:
            if self._in_work > self._limits.requests:
                raise overloaded(self._limits.requests)
            caller = self._caller(scope)
            exchange.who = caller.name
            self._require(scope, caller)
            scope[CALLER] = caller
        scope[REQUEST], scope[BODY] = exchange.id, exchange.body
        exchange.body.require_size()
        await self._app(scope, exchange.body.receive, exchange.pass_on)

    def _caller(self, scope: Scope) -> Caller:
        try:
            caller = self._tokens.caller(_token(scope), scope.get(PEER))
        except ConfigError as error:
            _log.error("no request is accepted: %s", error)
            raise closed() from error
        if caller is None or caller.is_expired(datetime.now(UTC)):
            if wait := self._denials.wait((scope.get("client") or ("-",))[0]):
                raise too_many("refused tokens", wait)
            raise unknown("an expired one" if caller else "none of the known ones")
        return caller

    def _require(self, scope: Scope, caller: Caller) -> None:
        if wait := self._rates.wait(caller.name):
            raise too_many("requests", wait)
        needed = self._scope_of(scope)
        if needed is not None and not caller.may(needed):
            raise scope_missing(needed, caller)

    def _record(self, exchange: _Exchange) -> None:
        scope, seconds = exchange.scope, time.monotonic() - exchange.since
        route = getattr(scope.get("route"), "path", "unknown")
        status = str(exchange.status or "none")
        self._metrics.count("requests_total", route=route, status=status)
        self._metrics.observe("request_seconds", seconds, route=route)
        if scope["path"] != FREE:
            self._audit.write(_audit_line(exchange, seconds))


def _declare(metrics: Metrics, audit: Audit, in_work: Callable[[], int]) -> None:
    metrics.counter("requests_total", "Requests by route and status of the answer.")
    metrics.histogram("request_seconds", "Time from headers to the end of the answer.")
    metrics.gauge(
        "requests_in_work", "Requests that are let through and not answered yet.", in_work
    )
    metrics.gauge("audit_failures", "Audit lines not written.", lambda: audit.failures)


def _audit_line(exchange: _Exchange, seconds: float) -> dict[str, Any]:
    scope = exchange.scope
    about = scope.get(ABOUT)
    return {
        "at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}",
        "request": exchange.id,
        "who": exchange.who,
        "from": (scope.get("client") or ("-",))[0],
        "what": f"{scope['method']} {_shown(scope['path'], _MAX_PATH_CHARS)}",
        **({} if about is None else {"about": _shown(about, _MAX_ABOUT_CHARS)}),
        "status": exchange.status,
        "outcome": exchange.outcome or ("done" if exchange.status else "no answer"),
        "bytes_in": exchange.body.num_bytes,
        "bytes_out": exchange.bytes_out,
        "ms": round(seconds * 1000, 3),
    }


def _shown(text: str, max_chars: int) -> str:
    """Return a text without control characters; one that is cut says so."""
    cut = text[:max_chars]
    return printable(cut) + (f" … {len(text) - max_chars} more characters" if cut != text else "")


def _token(scope: Scope) -> str | None:
    found = [value for name, value in scope["headers"] if name == b"authorization"]
    scheme, _, token = found[0].partition(b" ") if len(found) == 1 else (b"", b"", b"")
    return token.strip().decode("latin-1") if scheme.lower() == b"bearer" else None

"""Stands before every route: token, scope, limits, errors as JSON, audit and metrics."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trainfeed.core.printable_text import printable
from trainfeed.errors import ConfigError
from trainfeed.serving.server.access import Caller, TokenFile
from trainfeed.serving.server.audit import Audit, Summary
from trainfeed.serving.server.body import BODY, Body
from trainfeed.serving.server.listener import CONNECTION, Connection, caller_address
from trainfeed.serving.server.metrics import Metrics
from trainfeed.serving.server.refusals import (
    ABOVE_RATE,
    AUDIT_SHARE_USED,
    BODY_ON_HEALTH,
    FAILED,
    NO_MEMORY,
    OVERLOADED,
    SCOPE_MISSING,
    TOKEN_REFUSED,
    TOKENS_UNREADABLE,
    TOO_MANY_AT_ONCE,
    TOO_SLOW,
    Refusal,
)
from trainfeed.serving.server.settings import Limits, Portions, Rates

# Keys of the ASGI scope: common name of the peer's certificate, caller and number of a request, and
# what a handler adds to the audit: what it is about, and its outcome.
PEER: Final = "trainfeed.peer"
CALLER: Final = "trainfeed.caller"
REQUEST: Final = "trainfeed.request"
ABOUT: Final = "trainfeed.about"
OUTCOME: Final = "trainfeed.outcome"
# The only path without a token.
FREE: Final = "/healthz"

_log: Final = logging.getLogger("trainfeed.server")
_MAX_PATH_CHARS: Final = 200
# Bytes of JSON: a character that is not ASCII takes six or twelve.
_MAX_PATH_BYTES: Final = 800
_MAX_ABOUT_BYTES: Final = 4096
_NOBODY: Final = "-"


@dataclass(frozen=True)
class RouteRule:
    """What a request for a route needs.

    Attributes:
        path: The path, as the router has it.
        scope: The scope of the token; None if there is no such route.
        body_bytes: Most bytes of a body that the route reads itself; None for a body that is read
            before the route begins.
    """

    path: str = "unknown"
    scope: str | None = None
    body_bytes: int | None = None


@dataclass
class _Exchange:
    """One request and its answer, as far as they have come."""

    scope: Scope
    body: Body
    send: Send
    id: str = field(default_factory=lambda: secrets.token_hex(6))
    since: float = field(default_factory=time.monotonic)
    who: str = _NOBODY
    rule: RouteRule = RouteRule()
    status: int = 0
    outcome: str = ""
    bytes_out: int = 0
    work: ExitStack = field(default_factory=ExitStack)

    @property
    def address(self) -> str:
        return str((self.scope.get("client") or (_NOBODY,))[0])

    @property
    def connection(self) -> Connection | None:
        found: Connection | None = self.scope.get(CONNECTION)
        return found

    async def pass_on(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if self.status >= 400:
                # The rest of a refused body may never come: it takes no place of other requests.
                self.work.close()
                await self.body.drain()
            if not self.body.is_read or self.body.is_lost:
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
        audit: Gets a line per request of a caller, except requests for the state of health.
        nobody: Counts requests without a valid token.
        beyond: Counts requests of callers that have used up their share of the audit.
        metrics: Counts requests.
        rule_of: Returns what a request needs.
    """

    def __init__(  # noqa: PLR0913 (each is a part of a server)
        self,
        app: ASGIApp,
        *,
        tokens: TokenFile,
        limits: Limits,
        audit: Audit,
        nobody: Summary,
        beyond: Summary,
        metrics: Metrics,
        rule_of: Callable[[Scope], RouteRule],
    ) -> None:
        self._app = app
        self._tokens = tokens
        self._limits = limits
        self._audit = audit
        self._nobody, self._beyond = nobody, beyond
        self._metrics = metrics
        self._rule_of = rule_of
        self._rates = Rates(limits.requests_per_second, limits.burst)
        self._denials = Rates(limits.denials_per_second, limits.denials_per_second)
        self._shares = Rates(limits.audit_share_per_day / 86400, limits.audit_share_bytes)
        self._callers: Counter[str] = Counter()
        self._places = Portions(limits.requests)
        self._memory = Portions(limits.bodies_bytes)
        # Routes whose lines say what a request was about: these lines cannot be counted as one.
        self._telling: set[str] = set()
        _declare(metrics, audit, lambda: self._places.num_taken)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; lifespan messages go to the app as they are."""
        if scope["type"] == "lifespan":
            try:
                await self._app(scope, receive, send)
            finally:
                self._nobody.flush()
                self._beyond.flush()
            return
        limits = self._limits
        body = Body(scope, receive, seconds=limits.body_seconds, rate=limits.body_rate)
        if scope["type"] != "http":
            await send({"type": "websocket.close"})  # no server of trainfeed has web sockets
            return
        exchange = _Exchange(scope, body, send)
        try:
            await self._answer(exchange)
        finally:
            self._record(exchange)

    async def _answer(self, exchange: _Exchange) -> None:
        with ExitStack() as held:
            # Outside of the places and of the time limit: the rest of a refused body may never
            # come. Its bound is that of ``Body.drain``, and the requests of one name at once.
            if (refusal := await self._refusal(exchange, held)) is not None:
                await exchange.refuse(refusal)

    async def _refusal(self, exchange: _Exchange, held: ExitStack) -> Refusal | None:
        """Let a request through; return why not, or why it has no answer, or None."""
        try:
            async with asyncio.timeout(self._limits.request_seconds):
                await self._admitted(exchange, held)
        except Refusal as refusal:
            return refusal
        except TimeoutError:
            return TOO_SLOW.refusal(seconds=self._limits.request_seconds)
        except Exception:  # noqa: BLE001 (one request fails, the server goes on)
            _log.exception("request %s failed", exchange.id)
            return FAILED.refusal()
        finally:
            exchange.work.close()
        return None

    async def _admitted(self, exchange: _Exchange, held: ExitStack) -> None:
        scope, body = exchange.scope, exchange.body
        scope[REQUEST], scope[BODY] = exchange.id, body
        body.require_framing()
        if scope["path"] == FREE:
            if not body.is_read:
                body.is_lost = True
                raise BODY_ON_HEALTH.refusal()
        else:
            caller = self._caller(scope, exchange.address)
            exchange.who, exchange.rule = caller.name, self._rule_of(scope)
            self._require(exchange.rule, caller)
            scope[CALLER] = caller
            if exchange.connection is not None:
                exchange.connection.is_known = True
            self._count_caller(caller.name, held)
            if exchange.rule.body_bytes is None:
                await self._read_body(exchange, held)
            else:
                body.max_bytes = exchange.rule.body_bytes
                body.require_size()
            self._begin_work(exchange)
        await self._app(scope, body.receive, exchange.pass_on)

    def _caller(self, scope: Scope, address: str) -> Caller:
        try:
            caller = self._tokens.caller(_token(scope), scope.get(PEER))
        except ConfigError as error:
            raise TOKENS_UNREADABLE.refusal() from error
        if caller is None or caller.is_expired(datetime.now(UTC)):
            if wait := self._denials.wait(caller_address(address)):
                raise ABOVE_RATE.refusal(what="refused tokens", retry_after=wait)
            got = "an expired one" if caller else "none of the known ones"
            raise TOKEN_REFUSED.refusal(got=got)
        return caller

    def _require(self, rule: RouteRule, caller: Caller) -> None:
        if wait := self._rates.wait(caller.name):
            raise ABOVE_RATE.refusal(what="requests", retry_after=wait)
        if rule.scope is not None and not caller.may(rule.scope):
            scopes = ", ".join(sorted(caller.scopes))
            raise SCOPE_MISSING.refusal(needed=rule.scope, scopes=scopes, name=caller.name)
        if rule.path in self._telling and (wait := self._shares.debt_seconds(caller.name)):
            raise AUDIT_SHARE_USED.refusal(retry_after=wait)

    def _count_caller(self, name: str, held: ExitStack) -> None:
        if self._callers[name] >= self._limits.caller_requests:
            raise TOO_MANY_AT_ONCE.refusal(limit=self._limits.caller_requests)
        self._callers[name] += 1
        held.callback(self._forget_caller, name)

    def _forget_caller(self, name: str) -> None:
        self._callers[name] -= 1
        if not self._callers[name]:
            del self._callers[name]

    async def _read_body(self, exchange: _Exchange, held: ExitStack) -> None:
        """Read a small body before the request takes a place: it may come slowly, or never."""
        body, name = exchange.body, exchange.who
        body.max_bytes = self._limits.body_bytes
        body.require_size()
        if body.is_read:
            return
        num_bytes = body.may_bytes
        if not self._memory.take(name, num_bytes):
            raise NO_MEMORY.refusal(limit=self._limits.bodies_bytes)
        held.callback(self._memory.give, name, num_bytes)
        await body.read_whole()

    def _begin_work(self, exchange: _Exchange) -> None:
        name = exchange.who
        if not self._places.take(name):
            if self._places.num_taken >= self._limits.requests:
                raise OVERLOADED.refusal(limit=self._limits.requests)
            raise TOO_MANY_AT_ONCE.refusal(limit=self._places.of(name))
        exchange.work.callback(self._places.give, name)
        if (connection := exchange.connection) is not None:
            connection.begin()
            exchange.work.callback(connection.end)

    def _record(self, exchange: _Exchange) -> None:
        scope, seconds = exchange.scope, time.monotonic() - exchange.since
        route = getattr(scope.get("route"), "path", "unknown")
        status = str(exchange.status or "none")
        self._metrics.count("requests_total", route=route, status=status)
        self._metrics.observe("request_seconds", seconds, route=route)
        if scope["path"] == FREE and exchange.status in (200, 503):
            return
        line = _audit_line(exchange, seconds)
        if exchange.who == _NOBODY:
            # Also method and path are the choice of somebody unknown.
            self._nobody.add(line, "requests without a valid token")
        elif "about" not in line and self._shares.debt_seconds(exchange.who):
            self._beyond.add(line, f"{_method(scope)} {exchange.rule.path}")
        else:
            if "about" in line:
                self._telling.add(exchange.rule.path)
            self._shares.spend(exchange.who, self._audit.write(line))


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
    path = _shown(scope["path"], _MAX_PATH_CHARS, _MAX_PATH_BYTES)
    return {
        "at": now_text(),
        "request": exchange.id,
        "who": exchange.who,
        "from": exchange.address,
        "what": f"{_method(scope)} {path}",
        **({} if about is None else {"about": _shown(about, len(about), _MAX_ABOUT_BYTES)}),
        "status": exchange.status,
        "outcome": _outcome(exchange),
        "bytes_in": exchange.body.num_bytes,
        "bytes_out": exchange.bytes_out,
        "ms": round(seconds * 1000, 3),
    }


def _outcome(exchange: _Exchange) -> str:
    """Return the kind of the refusal, of the guard or of the route, or how the answer ended."""
    if said := exchange.outcome or exchange.scope.get(OUTCOME):
        return str(said)
    if not exchange.status:
        return "no answer"
    return "done" if exchange.status < 400 else "refused"


def now_text() -> str:
    """Return the time as lines of the audit have it."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def _method(scope: Scope) -> str:
    """Return the method of a request, which may be any word."""
    return printable(scope["method"][:16])


def _shown(text: str, max_chars: int, max_bytes: int) -> str:
    """Return a text without control characters; one that is cut says so."""
    shown = printable(text[:max_chars])
    count, room = 0, max_bytes
    while count < len(shown) and (room := room - json_bytes(shown[count])) >= 0:
        count += 1
    if count == len(shown) and len(text) <= max_chars:
        return shown
    # A character that was made printable may be several in the shown text.
    return f"{shown[:count]} … {max(1, len(text) - count)} more characters"


def json_bytes(text: str) -> int:
    """Return the bytes that a text takes in a line of the audit."""
    return len(json.dumps(text)) - 2


def _token(scope: Scope) -> str | None:
    found = [value for name, value in scope["headers"] if name == b"authorization"]
    scheme, _, token = found[0].partition(b" ") if len(found) == 1 else (b"", b"", b"")
    return token.strip().decode("latin-1") if scheme.lower() == b"bearer" else None

"""Makes the app of a server from its routes: guarded, with health and metrics."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route
from starlette.types import Scope

from trainfeed.errors import ConfigError, TrainFeedError
from trainfeed.serving.server.access import Caller, TokenFile
from trainfeed.serving.server.audit import Audit, Summary
from trainfeed.serving.server.guard import (
    ABOUT,
    CALLER,
    FREE,
    OUTCOME,
    REQUEST,
    Guard,
    RouteRule,
    now_text,
)
from trainfeed.serving.server.listener import Door
from trainfeed.serving.server.metrics import Metrics, Parts
from trainfeed.serving.server.refusals import Refusal, refusal_of, refusal_of_fields
from trainfeed.serving.server.settings import ServerSettings

if TYPE_CHECKING:
    from starlette.responses import Response


METRICS: Final = "/metrics"

_log: Final = logging.getLogger("trainfeed.server")

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


class Front:
    """What a server looks after beside its requests. Each app of ``make_app`` has one.

    Args:
        nobody: Requests without a valid token, which the audit counts.
        beyond: Requests of callers beyond their share of the audit.
        metrics: Metrics of the server.
    """

    def __init__(self, nobody: Summary, beyond: Summary, metrics: Metrics) -> None:
        self._nobody, self._beyond = nobody, beyond
        self._metrics = metrics
        metrics.counter("no_http_total", "Connections closed because they sent no HTTP.")

    def look(self) -> None:
        """Write what is due; called about once a second."""
        self._nobody.look()
        self._beyond.look()

    def count_no_http(self, address: str) -> None:
        """Count bytes of a peer that are no HTTP."""
        self._metrics.count("no_http_total")
        line = {"at": now_text(), "who": "-", "from": address, "what": "no HTTP", "status": 400}
        self._nobody.add({**line, "outcome": "NoHttp", "bytes_in": 0, "bytes_out": 0}, "no HTTP")

    def watch(self, door: Door) -> None:
        """Add the numbers of a door to the metrics."""
        self._metrics.gauge("connections", "Connections that are open.", lambda: door.num_open)
        self._metrics.gauge(
            "connections_given_way",
            "Connections that ended to make room for others.",
            lambda: door.given_way,
        )
        self._metrics.gauge(
            "connections_refused",
            "Connections refused because all others had a request in work.",
            lambda: door.refused,
        )


def front_of(app: FastAPI) -> Front:
    """Return the front of an app that ``make_app`` made."""
    front: Front = app.state.front
    return front


def make_app(  # noqa: PLR0913 (each is a part of a server)
    router: APIRouter,
    settings: ServerSettings,
    *,
    scopes: Mapping[str, str],
    metrics: Metrics | None = None,
    lifespan: Lifespan | None = None,
    parts: Parts | None = None,
    large_bodies: Mapping[str, int] | None = None,
) -> FastAPI:
    """Return the app of a server: its routes behind the guard, ``/healthz`` and ``/metrics``.

    Handlers are asynchronous and end when they are cancelled: a thread does not, and keeps its
    request open beyond the time limit.

    Args:
        router: The routes.
        settings: Token file, limits and audit; they are opened here.
        scopes: Path of each route, as the router has it → the scope that it needs. ``/metrics``
            needs the scope ``metrics``.
        metrics: Further metrics of the server.
        lifespan: Runs around the life of the server, as FastAPI defines it.
        parts: Parts of the server that must live for ``/healthz`` to answer 200.
        large_bodies: Path of each route that reads its body by ``read_body`` → most bytes of one.
            The bodies of all others are read, within ``Limits.body_bytes``, before they begin.

    Raises:
        ConfigError: A route has no scope, a scope has no route, or the token file is not usable.
        StorageError: The audit file cannot be opened.
    """
    metrics, parts = metrics or Metrics(), parts or Parts()
    _require_scopes(router, scopes)
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.include_router(router)
    app.include_router(_own_routes(metrics, parts))
    _answer_errors(app)
    limits = settings.limits
    audit = Audit(
        settings.audit_log,
        max_bytes=limits.audit_bytes,
        max_files=limits.audit_files,
        max_days=limits.audit_days,
    )
    nobody, beyond = Summary(audit, now_text), Summary(audit, now_text)
    tokens = TokenFile(settings.token_file)
    tokens.warn()
    parts.add("audit", lambda: audit.is_writable)
    parts.add("tokens", tokens.is_usable)
    app.state.front = Front(nobody, beyond, metrics)
    app.add_middleware(
        Guard,
        tokens=tokens,
        limits=limits,
        audit=audit,
        nobody=nobody,
        beyond=beyond,
        metrics=metrics,
        rule_of=_rule_finder(app, {**scopes, METRICS: "metrics"}, large_bodies or {}),
    )
    return app


def caller_of(request: Request) -> Caller:
    """Return the caller of a request, for handlers."""
    caller: Caller = request.scope[CALLER]
    return caller


def tell_audit(request: Request, about: str) -> None:
    """Add what a request is about, such as a path, to its line in the audit; no payload."""
    request.scope[ABOUT] = about


def tell_outcome(request: Request, outcome: str) -> None:
    """Name the outcome in the line of a request in the audit, where its status does not tell it."""
    request.scope[OUTCOME] = outcome


def _require_scopes(router: APIRouter, scopes: Mapping[str, str]) -> None:
    paths = {getattr(route, "path", "") for route in router.routes}
    if paths != set(scopes):
        raise ConfigError(
            f"expected a scope for each of the routes {sorted(paths)}, got {sorted(scopes)}"
        )


def _rule_finder(
    app: FastAPI, scopes: Mapping[str, str], large_bodies: Mapping[str, int]
) -> Callable[[Scope], RouteRule]:
    def find(scope: Scope) -> RouteRule:
        for route in app.router.routes:
            if isinstance(route, Route) and route.matches(scope)[0] is not Match.NONE:
                path = route.path
                return RouteRule(path, scopes.get(path), large_bodies.get(path))
        return RouteRule()

    return find


def _own_routes(metrics: Metrics, parts: Parts) -> APIRouter:
    router = APIRouter()

    @router.get(FREE)
    async def healthz() -> JSONResponse:
        if failed := parts.failed():
            return JSONResponse({"status": "not ready", "failed": failed}, status_code=503)
        return JSONResponse({"status": "ok"})

    @router.get(METRICS)
    async def all_metrics() -> PlainTextResponse:
        return PlainTextResponse(metrics.text(), media_type="text/plain; version=0.0.4")

    return router


def _answer_errors(app: FastAPI) -> None:
    async def refuse(request: Request, error: Any) -> Response:
        refusal = refusal_of(error)
        if refusal is not error and refusal.status_code >= 500:
            _log.error("request %s: %s", request.scope[REQUEST], error)
        return _answer(request, refusal)

    async def refuse_fields(request: Request, error: Any) -> Response:
        return _answer(request, refusal_of_fields(error.errors()))

    app.add_exception_handler(HTTPException, refuse)
    app.add_exception_handler(TrainFeedError, refuse)
    app.add_exception_handler(RequestValidationError, refuse_fields)


def _answer(request: Request, refusal: Refusal) -> JSONResponse:
    tell_outcome(request, refusal.error)
    return JSONResponse(
        refusal.body(request.scope[REQUEST]), refusal.status_code, headers=refusal.headers
    )

"""Makes the app of a server from its routes: guarded, with health and metrics."""

from __future__ import annotations

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
from trainfeed.server._audit import Audit
from trainfeed.server._guard import ABOUT, CALLER, FREE, REQUEST, Guard
from trainfeed.server._http_refusal import Refusal, refusal_of, refusal_of_fields
from trainfeed.server._metrics import Metrics
from trainfeed.server._server_settings import ServerSettings
from trainfeed.server.access import Caller, TokenFile

if TYPE_CHECKING:
    from starlette.responses import Response

__all__ = ["METRICS", "caller_of", "make_app", "tell_audit"]

METRICS: Final = "/metrics"

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def make_app(
    router: APIRouter,
    settings: ServerSettings,
    *,
    scopes: Mapping[str, str],
    metrics: Metrics | None = None,
    lifespan: Lifespan | None = None,
    is_healthy: Callable[[], bool] = lambda: True,
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
        is_healthy: Whether ``/healthz`` answers 200; otherwise 503.

    Raises:
        ConfigError: A route has no scope, a scope has no route, or the token file is not usable.
        StorageError: The audit file cannot be opened.
    """
    metrics = metrics or Metrics()
    _require_scopes(router, scopes)
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.include_router(router)
    app.include_router(_own_routes(metrics, is_healthy))
    _answer_errors(app)
    limits = settings.limits
    app.add_middleware(
        Guard,
        tokens=TokenFile(settings.token_file),
        limits=limits,
        audit=Audit(settings.audit_log, max_bytes=limits.audit_bytes, max_files=limits.audit_files),
        metrics=metrics,
        scope_of=_scope_finder(app, {**scopes, METRICS: "metrics"}),
    )
    return app


def caller_of(request: Request) -> Caller:
    """Return the caller of a request, for handlers."""
    caller: Caller = request.scope[CALLER]
    return caller


def tell_audit(request: Request, about: str) -> None:
    """Add what a request is about, such as a path, to its line in the audit; no payload."""
    request.scope[ABOUT] = about


def _require_scopes(router: APIRouter, scopes: Mapping[str, str]) -> None:
    paths = {getattr(route, "path", "") for route in router.routes}
    if paths != set(scopes):
        raise ConfigError(
            f"expected a scope for each of the routes {sorted(paths)}, got {sorted(scopes)}"
        )


def _scope_finder(app: FastAPI, scopes: Mapping[str, str]) -> Callable[[Scope], str | None]:
    def find(scope: Scope) -> str | None:
        for route in app.router.routes:
            if isinstance(route, Route) and route.matches(scope)[0] is not Match.NONE:
                return scopes.get(route.path)
        return None

    return find


def _own_routes(metrics: Metrics, is_healthy: Callable[[], bool]) -> APIRouter:
    router = APIRouter()

    @router.get(FREE)
    async def healthz() -> JSONResponse:
        healthy = is_healthy()
        text = "ok" if healthy else "not ready"
        return JSONResponse({"status": text}, status_code=200 if healthy else 503)

    @router.get(METRICS)
    async def all_metrics() -> PlainTextResponse:
        return PlainTextResponse(metrics.text(), media_type="text/plain; version=0.0.4")

    return router


def _answer_errors(app: FastAPI) -> None:
    async def refuse(request: Request, error: Any) -> Response:
        return _answer(request, refusal_of(error))

    async def refuse_fields(request: Request, error: Any) -> Response:
        return _answer(request, refusal_of_fields(error.errors()))

    app.add_exception_handler(HTTPException, refuse)
    app.add_exception_handler(TrainFeedError, refuse)
    app.add_exception_handler(RequestValidationError, refuse_fields)


def _answer(request: Request, refusal: Refusal) -> JSONResponse:
    return JSONResponse(
        refusal.body(request.scope[REQUEST]), refusal.status_code, headers=refusal.headers
    )

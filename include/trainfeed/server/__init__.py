"""The ground of every server of trainfeed: settings, TLS, tokens, limits, audit, and their client.

An app is made of routes and a table of their scopes; ``serve`` answers until SIGTERM. The rest is
the same for all: only ``/healthz`` is free, every other request needs a token or a certificate.
Clients import no web framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trainfeed.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.server._guarded_app import caller_of, make_app
    from trainfeed.server._http_refusal import Refusal
    from trainfeed.server._metrics import Metrics
    from trainfeed.server._new_token import new_token
    from trainfeed.server._serve import serve
    from trainfeed.server._server_settings import Limits, ServerSettings, is_loopback
    from trainfeed.server._service_client import Access, ServiceClient
    from trainfeed.server._tokens import ALL_SCOPES, Caller, TokenFile, parse_expiry

__all__ = [
    "ALL_SCOPES",
    "Access",
    "Caller",
    "Limits",
    "Metrics",
    "Refusal",
    "ServerSettings",
    "ServiceClient",
    "TokenFile",
    "caller_of",
    "is_loopback",
    "make_app",
    "new_token",
    "parse_expiry",
    "serve",
]

_HOMES: Final = {
    "ALL_SCOPES": "._tokens",
    "Access": "._service_client",
    "Caller": "._tokens",
    "Limits": "._server_settings",
    "Metrics": "._metrics",
    "Refusal": "._http_refusal",
    "ServerSettings": "._server_settings",
    "ServiceClient": "._service_client",
    "TokenFile": "._tokens",
    "caller_of": "._guarded_app",
    "is_loopback": "._server_settings",
    "make_app": "._guarded_app",
    "new_token": "._new_token",
    "parse_expiry": "._tokens",
    "serve": "._serve",
}

__getattr__ = on_demand(__name__, _HOMES)

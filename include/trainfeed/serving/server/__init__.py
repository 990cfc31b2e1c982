"""The ground of every server of trainfeed: settings, TLS, tokens, limits, audit, and their client.

An app is made of routes and a table of their scopes; ``serve`` answers until SIGTERM. The rest is
the same for all: only ``/healthz`` is free, every other request needs a token or a certificate.
Clients import no web framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.core.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.serving.server.access import (
        ALL_SCOPES,
        Caller,
        TokenFile,
        TokenLine,
        client_context,
        new_token,
        parse_expiry,
        revoke_tokens,
    )
    from trainfeed.serving.server.app import caller_of, make_app, tell_audit, tell_outcome
    from trainfeed.serving.server.body import read_body
    from trainfeed.serving.server.client import (
        Access,
        Client,
        Connections,
        NoAnswerError,
        Reply,
    )
    from trainfeed.serving.server.http_settings import HttpSettings, named_settings
    from trainfeed.serving.server.metrics import Metrics, Parts
    from trainfeed.serving.server.refusals import Refusal, public_text
    from trainfeed.serving.server.run import serve
    from trainfeed.serving.server.settings import (
        Limits,
        Portions,
        Rates,
        ServerSettings,
        is_loopback,
    )

__all__ = [
    "ALL_SCOPES",
    "Access",
    "Caller",
    "Client",
    "Connections",
    "HttpSettings",
    "Limits",
    "Metrics",
    "NoAnswerError",
    "Parts",
    "Portions",
    "Rates",
    "Refusal",
    "Reply",
    "ServerSettings",
    "TokenFile",
    "TokenLine",
    "caller_of",
    "client_context",
    "is_loopback",
    "make_app",
    "named_settings",
    "new_token",
    "parse_expiry",
    "public_text",
    "read_body",
    "revoke_tokens",
    "serve",
    "tell_audit",
    "tell_outcome",
]


__getattr__ = on_demand(__name__)

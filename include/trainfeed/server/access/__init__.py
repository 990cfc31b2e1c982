"""Who may use a server: tokens and their file, certificates, files that others cannot read."""

from __future__ import annotations

from trainfeed.server.access._new_token import new_token
from trainfeed.server.access._private_files import read_private
from trainfeed.server.access._tls import client_context, common_name, server_context
from trainfeed.server.access._tokens import ALL_SCOPES, Caller, TokenFile, parse_expiry

__all__ = [
    "ALL_SCOPES",
    "Caller",
    "TokenFile",
    "client_context",
    "common_name",
    "new_token",
    "parse_expiry",
    "read_private",
    "server_context",
]

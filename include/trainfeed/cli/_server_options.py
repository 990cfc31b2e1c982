"""Options that the commands of all servers, and of their clients, have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "AuditLog",
    "CaFile",
    "Certificate",
    "ClientCa",
    "Host",
    "Key",
    "Port",
    "PortFile",
    "TokenFileOption",
    "Tokens",
]

Tokens = Annotated[
    Path, typer.Option(help="Token file of the server: a line with a digest per token.")
]
Host = Annotated[str, typer.Option(help="Address to listen on; other machines need a certificate.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")]
Certificate = Annotated[Path | None, typer.Option(help="Certificate of the server, PEM.")]
Key = Annotated[Path | None, typer.Option(help="Key of the certificate, PEM, mode 0600.")]
ClientCa = Annotated[
    Path | None, typer.Option(help="Authorities of certificates that clients may show, PEM.")
]
AuditLog = Annotated[Path | None, typer.Option(help="File that gets one JSON line per request.")]
PortFile = Annotated[
    Path | None, typer.Option(help="File that gets the port once the server answers.")
]
TokenFileOption = Annotated[
    Path | None,
    typer.Option("--token-file", help="File with the token; by default TRAINFEED_TOKEN_FILE."),
]
CaFile = Annotated[
    Path | None,
    typer.Option(help="Authorities of the server, PEM; by default TRAINFEED_CA_FILE."),
]

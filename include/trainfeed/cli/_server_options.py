"""Options of the commands that serve: address, files and limits of a server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "AuditLog",
    "Certificate",
    "ClientAuthorities",
    "Host",
    "Key",
    "Port",
    "PortFile",
    "TokenFilePath",
]

TokenFilePath = Annotated[
    Path, typer.Option("--tokens", help="File with the tokens of clients: trainfeed token new.")
]
Host = Annotated[
    str, typer.Option(help="Address to listen on; one that other machines reach needs TLS.")
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")]
Certificate = Annotated[Path | None, typer.Option(help="PEM file of the server's certificate.")]
Key = Annotated[Path | None, typer.Option(help="PEM file of the certificate's key.")]
ClientAuthorities = Annotated[
    Path | None,
    typer.Option("--client-ca", help="PEM file of the authorities of clients' certificates."),
]
PortFile = Annotated[
    Path | None, typer.Option(help="File that gets the port once the server answers.")
]
AuditLog = Annotated[
    Path | None, typer.Option(help="File that gets a line of JSON for each request.")
]

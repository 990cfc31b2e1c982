"""``trainfeed pfs serve``: the file server of a data centre, for machines without a mount."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from trainfeed.cli._printing import print_message
from trainfeed.cli._server_options import (
    AuditLog,
    Certificate,
    ClientCa,
    Host,
    Key,
    Port,
    PortFile,
    Tokens,
)

__all__ = ["serve"]

_PORT: Final = 8792
_MIB: Final = 1 << 20


def serve(  # noqa: PLR0913 - options of a command
    folder: Annotated[
        Path, typer.Argument(help="Folder of the data centre, with home/USER and public.")
    ],
    *,
    tokens: Tokens,
    datacenter: Annotated[
        str | None, typer.Option(help="Name in /pfs/NAME/…; by default that of the folder.")
    ] = None,
    host: Host = "127.0.0.1",
    port: Port = _PORT,
    certificate: Certificate = None,
    key: Key = None,
    client_ca: ClientCa = None,
    port_file: PortFile = None,
    audit_log: AuditLog = None,
    rate: Annotated[
        float, typer.Option(min=0.1, help="Mebibytes of files per second of one user.")
    ] = 1024,
    user_requests: Annotated[
        int, typer.Option(min=1, help="Most requests of one user at once.")
    ] = 32,
    uploads: Annotated[
        int, typer.Option(min=1, help="Most unfinished uploads of one user that are open.")
    ] = 64,
    memory: Annotated[
        int, typer.Option(min=1, help="Mebibytes of bodies in memory at once, of all users.")
    ] = 64,
    small_files: Annotated[
        int,
        typer.Option(
            min=1, help="Most descriptors of small files and their folders, of all requests."
        ),
    ] = 600,
    local: Annotated[
        bool,
        typer.Option("--local", help="Plain folders of this machine are the storage, no mount."),
    ] = False,
    max_requests: Annotated[
        int, typer.Option(min=1, help="Most requests at once, of which one user gets half.")
    ] = 64,
    time_limit: Annotated[
        float, typer.Option(min=15, help="Seconds for one request: a chunk of 4 MiB at most.")
    ] = 120.0,
) -> None:
    """Serve homes and public files until SIGTERM, to users with a token of the scope pfs.

    The name of a token, or of a client certificate, is the name of its user. A user reads and
    writes below /pfs/NAME/home/USER, and reads /pfs/NAME/public.
    """
    from trainfeed.pfs.file_server import FileServerSettings, serve_files
    from trainfeed.pfs.limits import FileLimits
    from trainfeed.server import Limits, ServerSettings

    server = ServerSettings(
        token_file=tokens,
        host=host,
        port=port,
        certificate=certificate,
        key=key,
        client_ca=client_ca,
        port_file=port_file,
        audit_log=audit_log,
        limits=Limits(
            requests=max_requests, caller_requests=user_requests, request_seconds=time_limit
        ),
    )
    limits = FileLimits(
        bytes_per_second=rate * _MIB,
        uploads=uploads,
        buffered_bytes=memory * _MIB,
        small_descriptors=small_files,
    )
    name = folder.absolute().name if datacenter is None else datacenter
    settings = FileServerSettings(server, name, folder, limits, is_local=local)
    serve_files(settings, on_ready=lambda url: print_message(f"{url} serves /pfs/{name}"))

"""``trainfeed serve``: a service of predictions, which follows the alias of a model."""

from __future__ import annotations

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
from trainfeed.cli.serving._chosen_place import (
    AcceptOtherCode,
    Target,
    TimeLimit,
    chosen_place,
    limits_of,
)
from trainfeed.errors import ConfigError

__all__ = ["serve"]

_PORT: Final = 8791


def serve(  # noqa: PLR0913 - options of a command
    target: Target,
    *,
    tokens: Tokens,
    host: Host = "127.0.0.1",
    port: Port = _PORT,
    certificate: Certificate = None,
    key: Key = None,
    client_ca: ClientCa = None,
    port_file: PortFile = None,
    audit_log: AuditLog = None,
    max_batch: Annotated[
        int, typer.Option(min=1, max=65536, help="Most records of a batch, and of a request.")
    ] = 256,
    max_delay: Annotated[
        float,
        typer.Option(min=0, max=1, help="Seconds that a request waits for others if none is run."),
    ] = 0.002,
    queue: Annotated[
        int,
        typer.Option(
            min=1, help="Most records that wait, of which one caller gets half; else 503."
        ),
    ] = 2048,
    max_body: Annotated[int, typer.Option(min=1, help="Most bytes of a request.")] = 64 << 10,
    max_requests: Annotated[
        int, typer.Option(min=1, help="Most requests at once, of which one caller gets half.")
    ] = 256,
    rate: Annotated[float, typer.Option(min=0.1, help="Requests per second of one token.")] = 10000,
    watch: Annotated[
        float, typer.Option(min=0.1, help="Seconds from one look at the alias to the next.")
    ] = 2.0,
    time_limit: TimeLimit = 10.0,
    accept_other_code: AcceptOtherCode = False,
) -> None:
    """Answer requests for predictions with a model, until SIGTERM.

    With NAME@prod, a promotion or a rollback changes the model without a lost request.
    """
    if queue < max_batch:
        raise ConfigError(
            f"expected --queue of at least --max-batch = {max_batch}, got {queue}: a batch waits"
            " before it is predicted; raise --queue"
        )
    from trainfeed.prediction.batcher import BatchBounds
    from trainfeed.prediction.service import ServiceSettings, serve_model
    from trainfeed.server import Limits, ServerSettings

    limits = Limits(
        body_bytes=max_body,
        bodies_bytes=max(Limits.bodies_bytes, 2 * max_body),
        requests=max_requests,
        caller_requests=max_requests,
        connections=2 * max_requests,
        requests_per_second=rate,
        burst=max(1, int(rate)),
        # Three batches at worst: the one in work, the own one, and its requests one by one. Before
        # the last two the process may be replaced, which opens the model: seconds, and more on a
        # machine that is busy.
        request_seconds=3 * time_limit + 90,
    )
    server = ServerSettings(
        token_file=tokens,
        host=host,
        port=port,
        certificate=certificate,
        key=key,
        client_ca=client_ca,
        port_file=port_file,
        audit_log=audit_log,
        limits=limits,
    )
    chosen, place = chosen_place(target, accepts_other_code=accept_other_code)
    settings = ServiceSettings(
        server, limits_of(place, time_limit), BatchBounds(max_batch, max_delay, queue), watch
    )

    def ready(url: str) -> None:
        print_message(f"{url} predicts with {target}")

    serve_model(chosen, place, settings, ready)

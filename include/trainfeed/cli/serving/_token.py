"""``trainfeed token``: makes tokens for the servers of trainfeed."""

from __future__ import annotations

from typing import Annotated

import typer

from trainfeed.cli._printing import print_message
from trainfeed.cli._server_options import Tokens
from trainfeed.errors import ConfigError
from trainfeed.server import new_token, parse_expiry

__all__ = ["app"]

app = typer.Typer(
    help="Make tokens for the servers of trainfeed.",
    epilog="Example: trainfeed token new trainer --tokens tokens.txt --scopes train > token.txt",
    no_args_is_help=True,
)


@app.callback()
def _commands() -> None:
    """Make tokens for the servers of trainfeed."""


@app.command(
    "new",
    epilog="Example: trainfeed token new trainer --tokens tokens.txt --scopes train > token.txt",
)
def new(
    name: Annotated[str, typer.Argument(help="Name of the caller, for audit and limits.")],
    *,
    tokens: Tokens,
    scopes: Annotated[
        str,
        typer.Option(help="What the token is good for, such as train,read; * for every route."),
    ],
    expires: Annotated[
        str | None, typer.Option(help="Day or time in UTC from which the token is void.")
    ] = None,
) -> None:
    """Print a new token, once: the file has only its digest. A running server knows it at once."""
    try:
        until = None if expires is None else parse_expiry(expires)
    except ValueError:
        raise ConfigError(f"expected a day such as 2027-01-31, got {expires!r}") from None
    token = new_token(tokens, name, scopes=scopes, expires=until)
    typer.echo(token)
    print_message(f"the token of {name} is printed once; {tokens} has its digest")

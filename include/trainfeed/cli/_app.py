"""The commands, and what they have in common: settings, errors, exit status.

Exit status: 0 done, 1 failed, 2 usage, 3 found damage or a difference.
"""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from trainfeed import __version__
from trainfeed.cli import _build, _look
from trainfeed.cli._output import error_console
from trainfeed.errors import ConfigError, FormatError, TrainFeedError

__all__ = ["main"]

app = typer.Typer(
    help="Nightly training data: complete, atomic, reproducible.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("build")(_build.build)
app.command("train")(_build.train)
app.command("ls")(_look.ls)
app.command("show")(_look.show)
app.command("verify")(_look.verify)


@app.callback(invoke_without_command=True)
def _common(
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log what is done.")] = False,
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING, format="%(levelname)s %(message)s"
    )


def main() -> None:
    """Run the command line; errors of trainfeed and of the system become a message and a status."""
    try:
        app()
    except (TrainFeedError, OSError) as error:
        error_console().print(f"[red]{type(error).__name__}[/]:", end=" ")
        error_console().print(str(error), markup=False, highlight=False)
        sys.exit(_status(error))


def _status(error: TrainFeedError | OSError) -> int:
    if isinstance(error, ConfigError):
        return 2
    return 3 if isinstance(error, FormatError) else 1

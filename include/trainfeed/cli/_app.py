"""The commands, and what they have in common: settings, errors, exit status.

Exit status: 0 done, 1 failed, 2 usage, 3 found damage or a difference.
"""

from __future__ import annotations

import logging
import re
import signal
import sys
from typing import Annotated

import typer

from trainfeed import __version__
from trainfeed.cli import (
    _base64,
    _bench,
    _boundaries,
    _build,
    _file,
    _gc,
    _init,
    _look,
    _new,
    _prune,
    _quarantine,
    _version_look,
)
from trainfeed.cli._output import error_console, print_message, printable, program
from trainfeed.errors import ConfigError, FormatError, TrainFeedError

__all__ = ["main"]

app = typer.Typer(
    help="Nightly training data: complete, atomic, reproducible.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("init")(_init.init)
app.command("new")(_new.new)
app.command("schema")(_new.schema)
app.command("build")(_build.build)
app.command("train")(_build.train)
app.command("ls")(_look.ls)
app.command("show")(_look.show)
app.command("head")(_version_look.head)
app.command("stats")(_version_look.stats)
app.command("verify")(_look.verify)
app.command("gc")(_gc.gc)
app.command("prune")(_prune.prune_dataset)
app.command("process-base64")(_base64.process_base64)
app.add_typer(_quarantine.app, name="quarantine")
app.add_typer(_file.app, name="file")
app.add_typer(_bench.app, name="bench")
app.add_typer(_boundaries.app, name="boundaries")


class _PlainFormatter(logging.Formatter):
    """Log lines, of which a terminal obeys nothing."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


@app.callback(invoke_without_command=True)
def _common(
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log what is done.")] = False,
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit
    handler = logging.StreamHandler()
    handler.setFormatter(_PlainFormatter("%(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, handlers=[handler])


def main() -> None:
    """Run the command line; errors of trainfeed and of the system become a message and a status."""
    for polite in (signal.SIGTERM, signal.SIGHUP):
        # Of nohup and the like it is ignored, and stays so.
        if signal.getsignal(polite) is signal.SIG_DFL:
            signal.signal(polite, _end)
    try:
        app()
    except (TrainFeedError, OSError) as error:
        error_console().print(f"[red]{type(error).__name__}[/]:", end=" ")
        print_message(_callable(str(error)))
        sys.exit(_status(error))


def _end(number: int, _: object) -> None:
    """Leave in good order: temporary folders are removed on the way."""
    sys.exit(128 + number)


def _callable(message: str) -> str:
    """Return a message whose remedies name this program the way it was called."""
    names = [command.name for command in app.registered_commands]
    names += [group.name for group in app.registered_groups]
    commands = "|".join(re.escape(name) for name in names if name)
    return re.sub(rf"\btrainfeed (?=({commands})\b)", f"{program()} ", message)


def _status(error: TrainFeedError | OSError) -> int:
    if isinstance(error, ConfigError):
        return 2
    return 3 if isinstance(error, FormatError) else 1

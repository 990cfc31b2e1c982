"""The program ``trainfeed``: settings, errors and the exit status of every command.

Exit status: 0 done, 1 failed, 2 usage, 3 found damage or a difference. ``_command_table`` names the
commands.
"""

from __future__ import annotations

import logging
import re
import signal
import sys
from typing import Annotated, Final

import typer

from trainfeed import __version__
from trainfeed.cli._command_table import COMMANDS, HEADINGS
from trainfeed.cli.command_groups import group_on_demand
from trainfeed.cli.printing import error_console, print_message, printable_lines, program
from trainfeed.errors import ConfigError, FormatError, TrainFeedError

_STATUSES: Final = (
    "Exit status: 0 done, 1 failed or missing, 2 wrong usage or settings, 3 damage or a difference"
    " found, 130 ended by Ctrl-C."
)

app = typer.Typer(
    cls=group_on_demand("trainfeed.cli", HEADINGS),
    help="Nightly training data: complete, atomic, reproducible.",
    epilog=f"Example: trainfeed ls. {_STATUSES} docs/guides/command-line.md has the rest.",
    no_args_is_help=True,
    # Plain text: panels would take twice the time of everything else in a list of commands.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


class _PlainFormatter(logging.Formatter):
    """Log lines without characters that a terminal acts on."""

    def format(self, record: logging.LogRecord) -> str:
        return printable_lines(super().format(record))


@app.callback(invoke_without_command=True)
def _common(
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log every step.")] = False,
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
        # Under nohup and similar programs the signal is ignored, which must stay so.
        if signal.getsignal(polite) is signal.SIG_DFL:
            signal.signal(polite, _end)
    try:
        _run()
    except (TrainFeedError, OSError) as error:
        error_console().print(f"[red]{type(error).__name__}[/]:", end=" ")
        print_message(_callable(str(error)))
        sys.exit(_status(error))


def _run() -> None:
    if len(sys.argv) == 1:  # so a shell asks for completions; the help needs no setting
        from trainfeed.cli.completion import complete_in_bash

        complete_in_bash(app)
    else:
        app()


def error_of(end: SystemExit) -> tuple[str, str]:
    """Return class and message of the error for which ``main`` ended; empty without one."""
    error = end.__context__
    if not isinstance(error, TrainFeedError | OSError):
        return "", ""
    return type(error).__name__, _callable(str(error))


def _end(number: int, _: object) -> None:
    """Exit by an exception, so that temporary folders are removed."""
    sys.exit(128 + number)


def _callable(message: str) -> str:
    """Return a message in which commands begin with the name by which this program was called."""
    commands = "|".join(re.escape(command.name) for command in COMMANDS)
    return re.sub(rf"\btrainfeed (?=({commands})\b)", f"{program()} ", message)


def _status(error: TrainFeedError | OSError) -> int:
    if isinstance(error, ConfigError):
        return 2
    return 3 if isinstance(error, FormatError) else 1

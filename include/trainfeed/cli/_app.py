"""The commands, and their common part: settings, errors, exit status.

Exit status: 0 done, 1 failed, 2 usage, 3 found damage or a difference.
"""

from __future__ import annotations

import logging
import re
import signal
import sys
from typing import Annotated, Final

import typer

from trainfeed import __version__
from trainfeed.cli import (
    _bench,
    _init,
    _new,
    _public,
    _uploads_command,
    build,
    file,
    pfs,
    quarantine,
    serving,
    training,
    upkeep,
    versions,
)
from trainfeed.cli._printing import error_console, print_message, printable_lines, program
from trainfeed.errors import ConfigError, FormatError, TrainFeedError

__all__ = ["main"]

_STATUSES: Final = (
    "Exit status: 0 done, 1 failed or missing, 2 wrong usage or settings, 3 damage or a difference"
    " found, 130 ended by Ctrl-C."
)

app = typer.Typer(
    help="Nightly training data: complete, atomic, reproducible.",
    epilog=f"Example: trainfeed ls. {_STATUSES} docs/guides/command-line.md has the rest.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for _name, _command, _example in (
    ("init", _init.init, "trainfeed init /mnt/cephfs/training"),
    ("new", _new.new, "trainfeed new clicks"),
    ("schema", _new.schema, "trainfeed schema > dataset.schema.json"),
    ("build", build.build, "trainfeed build flights/2013-01-01/2013-01-31 --jobs 4"),
    ("train", training.train, "trainfeed train flights --interval 2013-01-04"),
    ("predict", serving.predict, "trainfeed predict flights@prod flights.jsonl"),
    ("serve", serving.serve, "trainfeed serve flights@prod --tokens tokens.txt"),
    ("status", versions.status, "trainfeed status flights"),
    ("drift", versions.drift, "trainfeed drift flights 2013-01"),
    (
        "diff",
        versions.diff,
        "trainfeed diff flights 2013-01-01/g0001 2013-01-01/g0002",
    ),
    ("lineage", versions.lineage, "trainfeed lineage kafka:flights/0@12345"),
    ("ls", versions.ls, "trainfeed ls flights"),
    ("show", versions.show, "trainfeed show flights/2013-01-01"),
    ("head", versions.head, "trainfeed head flights/2013-01-01 -n 3 --split eval"),
    ("stats", versions.stats, "trainfeed stats flights/2013-01-01"),
    ("verify", versions.verify, "trainfeed verify flights/2013-01"),
    (
        "waive",
        upkeep.waive,
        "trainfeed waive flights/2013-01-01 --why 'storm, few flights' --until 2026-12-31",
    ),
    ("gc", upkeep.gc, "trainfeed gc --older-than 24 --dry-run"),
    ("prune", upkeep.prune_dataset, "trainfeed prune flights --dry-run"),
    (
        "process-base64",
        file.process_base64,
        "trainfeed process-base64 --data-dir images --file-list list.txt --nranks 8",
    ),
):
    app.command(_name, epilog=f"Example: {_example}")(_command)
app.add_typer(file.app, name="file")
app.add_typer(pfs.app, name="pfs")
app.add_typer(pfs.paddle, name="paddle")
app.add_typer(_bench.app, name="bench")
app.add_typer(upkeep.waivers, name="waivers")
app.add_typer(quarantine.app, name="quarantine")
app.add_typer(upkeep.boundaries, name="boundaries")
app.add_typer(_public.app, name="public")
app.add_typer(_uploads_command.app, name="uploads")
app.add_typer(training.jobs, name="jobs")
app.add_typer(training.models, name="models")
app.add_typer(serving.dispatch, name="dispatch")
app.add_typer(serving.token, name="token")


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
        app()
    except (TrainFeedError, OSError) as error:
        error_console().print(f"[red]{type(error).__name__}[/]:", end=" ")
        print_message(_callable(str(error)))
        sys.exit(_status(error))


def _end(number: int, _: object) -> None:
    """Exit by an exception, so that temporary folders are removed."""
    sys.exit(128 + number)


def _callable(message: str) -> str:
    """Return a message in which commands begin with the name by which this program was called."""
    names = [command.name for command in app.registered_commands]
    names += [group.name for group in app.registered_groups]
    commands = "|".join(re.escape(name) for name in names if name)
    return re.sub(rf"\btrainfeed (?=({commands})\b)", f"{program()} ", message)


def _status(error: TrainFeedError | OSError) -> int:
    if isinstance(error, ConfigError):
        return 2
    return 3 if isinstance(error, FormatError) else 1

"""``trainfeed connections``: whether what the settings name answers."""

from __future__ import annotations

import typer

from trainfeed.cli.command_groups import command
from trainfeed.cli.printing import Result, shown_at_work, with_json
from trainfeed.core.config import environment_from_environ

app = typer.Typer(
    help="Check the connections that data sets name.",
    epilog="Example: trainfeed connections check",
    no_args_is_help=True,
)


@app.callback()
def _connections_group() -> None:
    """Keep ``check`` a command of its own: typer merges a single command into its group."""


@command(app, "check", "connections check")
@with_json
def check() -> Result:
    """Ask each cluster, file system and store that data sets name.

    One line each: what it is, where, which data sets use it, and what it answered, or what is
    wrong and what to do. Nothing is written, and no credentials but those of the settings are
    used; all are asked at once, for 10 s at most. Status 1: one failed.
    """
    from trainfeed.look.connections import check_connections

    with shown_at_work("asking all connections"):
        answers = check_connections(environment_from_environ())
    lines = []
    for each in answers:
        asked = each.connection
        where = ", ".join(filter(None, [asked.kind, asked.place]))
        users = f", for {', '.join(asked.used_by)}" if asked.used_by else ""
        state = "ok" if each.is_ok else "FAILED"
        lines.append(f"{state}: {asked.name} ({where}{users}): {each.message}")
    failed = sum(not each.is_ok for each in answers)
    return Result(
        [each.to_json() for each in answers],
        lines,
        [f"{failed} of {len(answers)} connections failed"] if failed else (),
        Result.FAILED if failed else 0,
    )

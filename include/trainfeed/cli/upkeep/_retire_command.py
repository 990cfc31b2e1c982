"""``trainfeed retire``: a person removes whole intervals for good."""

from __future__ import annotations

from typing import Annotated

import typer

from trainfeed.cli._asked_intervals import Name, open_asked
from trainfeed.cli._decision_options import Who, named_person, reason_or_dry_run
from trainfeed.cli._printing import (
    error_console,
    print_json,
    print_result,
    print_rows,
)
from trainfeed.cli.upkeep._removal_rows import REMOVAL_COLUMNS, removal_rows
from trainfeed.retention import Context, Retired, retired_lines
from trainfeed.retention import retire as remove_for_good

__all__ = ["retire"]


def retire(
    target: Name,
    *,
    why: Annotated[str | None, typer.Option(help="The reason, which the interval keeps.")] = None,
    who: Who = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would be removed.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Remove all versions of the intervals of a range for good; their numbers are not used again.

    Status 1 when a tag, a lease, a training without a result, a plan or a gate needs one of them;
    nothing is removed then. Skipped and unpublished intervals are retired, too.
    """
    reason = reason_or_dry_run(why, dry_run=dry_run)
    spec, env, asked = open_asked(target, None)
    env.refuse_public_root()
    with error_console().status(f"{target}: what needs it"):
        context = Context.of(spec, env, who=named_person(who))
        done = remove_for_good(context, asked, reason, dry_run=dry_run)
    if as_json:
        print_json({"dataset": spec.name, "range": asked, **done.to_json()})
    else:
        _print(spec.name, asked, done)
    if done.refused:
        raise typer.Exit(1)


def _print(name: str, asked: str, done: Retired) -> None:
    rows = removal_rows(name, done.removals, dry_run=done.dry_run)
    if rows:
        print_rows(REMOVAL_COLUMNS, rows)
    print_result(retired_lines(name, asked, done))

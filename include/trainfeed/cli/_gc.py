"""``trainfeed gc``: removes the files that killed and abandoned builds left behind."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Annotated, Final

import typer

from trainfeed.cli._printing import error_console, print_json, print_rows
from trainfeed.config import environment_from_environ
from trainfeed.pipeline.upkeep import OLD, sweep

__all__ = ["gc"]

_COLUMNS: Final = ("place", "bytes", "modified")


def gc(
    *,
    older_than: Annotated[
        int, typer.Option(min=0, help="Only files that were not modified for this many hours.")
    ] = round(OLD / timedelta(hours=1)),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the leftovers.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Remove files of killed and abandoned builds; versions and landed records stay."""
    env = environment_from_environ()
    with error_console().status("looking for leftovers"):
        removed = sweep(env, older_than=timedelta(hours=older_than), dry_run=dry_run)
    if as_json:
        print_json([asdict(each) for each in removed])
        return
    if removed:
        print_rows(_COLUMNS, [[each.place, each.bytes, each.modified] for each in removed])
    verb, size = "would remove" if dry_run else "removed", sum(each.bytes for each in removed)
    typer.echo(f"{verb} {len(removed)} leftovers, {size} bytes")

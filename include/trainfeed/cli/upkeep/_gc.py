"""``trainfeed gc``: removes what killed and abandoned builds and launches left behind."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final

import typer

from trainfeed.cli._printing import error_console, print_json, print_rows
from trainfeed.config import environment_from_environ
from trainfeed.pipeline.upkeep import OLD, Swept, sweep
from trainfeed.training.kept_jobs import LeftObject, abandoned_launches, sweep_launches

__all__ = ["gc"]

_COLUMNS: Final = ("place", "bytes", "modified")


def gc(
    *,
    older_than: Annotated[
        int,
        typer.Option(
            min=0,
            help="Least age in hours: since a file was modified, a launch began.",
        ),
    ] = round(OLD / timedelta(hours=1)),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the leftovers.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Remove leftovers of killed builds and of launches; versions and landed records stay."""
    env, age = environment_from_environ(), timedelta(hours=older_than)
    with error_console().status("looking for leftovers"):
        # Found before any file is removed: an error here must not hide what was removed.
        jobs = abandoned_launches(Path(env.root), older_than=age)
        files = sweep(env, older_than=age, dry_run=dry_run)
        objects = sweep_launches(jobs, env.clusters, dry_run=dry_run)
    removed: list[Swept | LeftObject] = [*files, *objects]
    if as_json:
        print_json([asdict(each) for each in removed])
        return
    if removed:
        print_rows(_COLUMNS, [[each.place, each.bytes, each.modified] for each in removed])
    verb, size = "would remove" if dry_run else "removed", sum(each.bytes for each in removed)
    typer.echo(f"{verb} {len(removed)} leftovers, {size} bytes")

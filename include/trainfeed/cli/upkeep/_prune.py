"""``trainfeed prune``: removes superseded generations that a data set no longer keeps."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from trainfeed.cli._printing import error_console, print_json, print_rows
from trainfeed.config import environment_from_environ
from trainfeed.pipeline.upkeep import Removal, prune
from trainfeed.specification import load_spec

__all__ = ["prune_dataset"]


def prune_dataset(
    name: Annotated[str, typer.Argument(help="The data set.")],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the generations.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Delete the generations outside `retention` in dataset.yaml; never the current one."""
    env = environment_from_environ()
    env.refuse_public_root()
    spec = load_spec(env.datasets / name)
    with error_console().status(f"{name}: superseded generations"):
        removals = prune(spec, Path(env.root), dry_run=dry_run)
    rows = [_row(each) for each in removals]
    if as_json:
        print_json(rows)
        return
    if rows:
        print_rows(tuple(rows[0]), [list(row.values()) for row in rows])
    verb, size = "would remove" if dry_run else "removed", sum(each.num_bytes for each in removals)
    typer.echo(f"{verb} {len(removals)} generations, {size} bytes")


def _row(removal: Removal) -> dict[str, object]:
    published = removal.published.isoformat(timespec="seconds")
    return {**asdict(removal), "published": published}

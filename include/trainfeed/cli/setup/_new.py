"""``trainfeed new`` and ``schema``: makes a data set, and prints the schema of its file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainfeed.cli._printing import print_json, program
from trainfeed.config import environment_from_environ
from trainfeed.dataset import require_readable_root
from trainfeed.errors import RootError
from trainfeed.scaffold import new_dataset
from trainfeed.specification import json_schema_text

__all__ = ["new", "schema"]


def new(
    name: Annotated[str, typer.Argument(help="Name: lower-case letters, digits and _.")],
    *,
    batch: Annotated[
        bool,
        typer.Option("--batch", help="Write a function that gets many records at once, as arrays."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make the folder of a new data set, with comments and sample records, ready to build."""
    env = environment_from_environ()
    made = new_dataset(env.datasets, name, batch=batch)
    if as_json:
        print_json(made)
        return
    command, interval = program(), made["interval"]
    build = f"{command} build {name} --interval {interval}"
    typer.echo(
        f"made {made['folder']}: {', '.join(made['files'])} ({made['records']} sample records)\n"
        "next:\n"
        f"{_init_line(Path(env.root), command)}"
        f"  {build} --limit 100    # a look at samples, quarantine and statistics\n"
        f"  {build}                # the first version\n"
        f"  {command} train {name} --interval {interval}\n"
        f"In Airflow, build.{name} and train.{name} appear by themselves, paused."
    )


def _init_line(root: Path, command: str) -> str:
    """Return the line with the command that makes the publication root, if there is none."""
    try:
        require_readable_root(root, "TRAINFEED_ROOT")
    except RootError:
        return f"  {command} init    # once: makes {root}, which versions are published in\n"
    return ""


def schema() -> None:
    """Print the JSON Schema of dataset.yaml, for editors."""
    typer.echo(json_schema_text(), nl=False)

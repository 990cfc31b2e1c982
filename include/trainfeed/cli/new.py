"""``trainfeed new`` and ``schema``: make a data set, and print the schema of its file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainfeed.cli.printing import Result, program, with_json
from trainfeed.cli.scaffold import new_dataset
from trainfeed.core.config import environment_from_environ
from trainfeed.errors import RootError
from trainfeed.specification import json_schema_text
from trainfeed.versions import require_readable_root


@with_json
def new(
    name: Annotated[str, typer.Argument(help="Name: lower-case letters, digits and _.")],
    *,
    batch: Annotated[
        bool,
        typer.Option("--batch", help="Write a function that gets many records at once, as arrays."),
    ] = False,
) -> Result:
    """Make the folder of a new data set, ready to build.

    It has a commented dataset.yaml, a function, and sample records.
    """
    env = environment_from_environ()
    created = new_dataset(env.datasets, name, batch=batch)
    command, interval = program(), created["interval"]
    build = f"{command} build {name} --interval {interval}"
    return Result(
        created,
        f"made {created['folder']}: {', '.join(created['files'])}"
        f" ({created['records']} sample records)\n"
        "next:\n"
        f"{_init_line(Path(env.root), command)}"
        f"  {build} --limit 100    # a look at samples, quarantine and statistics\n"
        f"  {build}                # the first version\n"
        f"  {command} train {name} --interval {interval}\n"
        f"In Airflow, build.{name} and train.{name} appear by themselves, paused.",
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

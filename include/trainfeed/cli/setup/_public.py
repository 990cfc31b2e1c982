"""``trainfeed public``: data sets that every user of a data centre reads."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer

from trainfeed.cli._printing import (
    error_console,
    print_json,
    print_mapping,
    print_message,
    print_rows,
    printable_lines,
)
from trainfeed.config import PUBLIC_FOLDER
from trainfeed.publicsets import (
    PublicUse,
    build_public_set,
    known_public_root,
    list_public_sets,
    public_root,
    use_public_set,
)

__all__ = ["app"]

app = typer.Typer(
    help="Public data sets: list, build, use.",
    epilog="Example: trainfeed public use mnist",
    no_args_is_help=True,
)

_Root = Annotated[
    str | None,
    typer.Option(
        help=f"Publication root of the public sets; by default the folder dataset of"
        f" {PUBLIC_FOLDER}, or of the public folder in ~/.trainfeed/config."
    ),
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_COLUMNS: Final = ("name", "kind", "state", "version", "samples", "bytes", "licence", "origin")
_DAMAGED: Final = 3


@app.command(epilog="Example: trainfeed public ls")
def ls(*, root: _Root = None, as_json: _Json = False) -> None:
    """List the public sets: those that are published, and those that trainfeed can build.

    Status 3 when a set is damaged; the others are listed all the same.
    """
    place = known_public_root() if root is None else public_root(root)
    rows = list_public_sets(place)
    if as_json:
        told = [{**asdict(row), "root": None if place is None else str(place)} for row in rows]
        print_json(told)
    else:
        print_rows(_COLUMNS, [list(asdict(row).values())[: len(_COLUMNS)] for row in rows])
    if place is None:
        print_message(
            f"no publication root of public sets is known here: set {PUBLIC_FOLDER}, or name one"
            " with --root"
        )
    damaged = [row for row in rows if row.damaged is not None]
    for row in damaged:
        print_message(f"{row.name} is damaged: {row.damaged}")
    if damaged:
        raise typer.Exit(_DAMAGED)


@app.command(
    epilog="Example: trainfeed public build mnist --from idx --root /pfs/dc1/public/dataset"
)
def build(
    name: Annotated[str, typer.Argument(help="Name of a set that 'public ls' lists.")],
    *,
    originals: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="Folder of the originals: IDX files, or a folder with the installed package.",
        ),
    ] = None,
    root: _Root = None,
    work: Annotated[
        Path | None,
        typer.Option(help="Folder for files that are needed until the build ends."),
    ] = None,
    as_json: _Json = False,
) -> None:
    """Build a public set and publish it; an equal one is found published.

    Other originals become the next generation of the set, and no published one changes. The root
    must have been made with 'trainfeed init'.
    """
    with error_console().status(f"{name}: reading originals") as status:
        built = build_public_set(
            name,
            originals=originals,
            root=root,
            work=work,
            on_stage=lambda stage: status.update(f"{name}: {stage}"),
        )
    if as_json:
        print_json(built.to_json())
        return
    kept = ("dataset", "version", "verdict", "originals", "samples", "bytes", "source", "root")
    told = built.to_json()
    print_mapping({key: told[key] for key in kept})


@app.command(epilog="Example: trainfeed public use mnist")
def use(
    name: Annotated[str, typer.Argument(help="Name of a published set.")],
    *,
    interval: Annotated[
        str | None, typer.Option(help="Interval, for a set that has several.")
    ] = None,
    root: _Root = None,
    as_json: _Json = False,
) -> None:
    """Verify every byte of a public set, and show how programs and trainings read it.

    Status 0: it can be read; 1: it is not there; 3: it is damaged.
    """
    with error_console().status(f"{name}: verifying"):
        found = use_public_set(name, interval=interval, root=root)
    if as_json:
        print_json(found.to_json())
        return
    kept = ("name", "version", "state", "splits", "bytes", "source", "documents", "path")
    told = found.to_json()
    print_mapping({key: told[key] for key in kept})
    typer.echo(printable_lines(_shown(found)))


def _shown(found: PublicUse) -> str:
    lines = [""] if found.setting is None else ["", "once, for all programs:", f"  {found.setting}"]
    for what, code in found.examples().items():
        lines += [f"{what}:", *(f"  {line}" for line in code)]
    return "\n".join(lines)

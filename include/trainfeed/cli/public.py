"""``trainfeed public``: data sets that every user of a data centre reads."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer

from trainfeed.cli.command_groups import command
from trainfeed.cli.printing import Result, Table, error_console, with_json
from trainfeed.cli.targets import Target
from trainfeed.core.config import PUBLIC_FOLDER
from trainfeed.errors import ConfigError
from trainfeed.publicsets import (
    PublicUse,
    build_public_set,
    known_public_root,
    list_public_sets,
    public_root,
    use_public_set,
)

app = typer.Typer(
    help="List, build and use public data sets.",
    epilog="Example: trainfeed public use mnist",
    no_args_is_help=True,
)

RootOption = Annotated[
    str | None,
    typer.Option(
        help=f"Publication root of the public sets; by default the folder dataset of"
        f" {PUBLIC_FOLDER}, or of the public folder in ~/.trainfeed/config."
    ),
]
# Header of a column → attribute of the rows.
_COLUMNS: Final = {
    "name": "name",
    "kind": "kind",
    "state": "state",
    "version": "version",
    "samples": "samples",
    "bytes": "num_bytes",
    "licence": "licence",
    "origin": "origin",
}


@command(app, "ls", "public ls")
@with_json
def list_public(*, root: RootOption = None) -> Result:
    """List public sets: published ones, and those to build.

    Status 3 when a set is damaged; the others are listed all the same.
    """
    folder = known_public_root() if root is None else public_root(root)
    public_sets = list_public_sets(folder)
    root_name = None if folder is None else str(folder)
    messages = [
        f"{each.name} is damaged: {each.damaged}"
        for each in public_sets
        if each.damaged is not None
    ]
    status = Result.DAMAGED if messages else 0
    if folder is None:
        no_root = (
            f"no publication root of public sets is known here: set {PUBLIC_FOLDER}, or name one"
            " with --root"
        )
        messages.insert(0, no_root)
    return Result(
        [{**asdict(each), "root": root_name} for each in public_sets],
        Table(
            tuple(_COLUMNS),
            [[getattr(each, name) for name in _COLUMNS.values()] for each in public_sets],
        ),
        messages,
        status,
    )


@command(app, "build", "public build mnist --from idx --root /pfs/dc1/public/dataset")
@with_json
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
    root: RootOption = None,
    work: Annotated[
        Path | None,
        typer.Option(help="Folder for files that are needed until the build ends."),
    ] = None,
) -> Result:
    """Build a public set and publish it.

    An equal one is found published.
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
    shown = ("dataset", "version", "verdict", "originals", "samples", "bytes", "source", "root")
    report = built.to_json()
    return Result(report, Table.of_pairs({key: report[key] for key in shown}))


@command(app, "use", "public use mnist")
@with_json
def use(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="NAME[/INTERVAL] of a published set.")
    ],
    asked: Annotated[
        str | None, typer.Argument(metavar="INTERVAL", help="The interval, for a set of several.")
    ] = None,
    *,
    interval: Annotated[
        str | None, typer.Option(help="Interval, for a set that has several.")
    ] = None,
    root: RootOption = None,
) -> Result:
    """Verify a public set, and show how programs read it.

    Every byte is compared.
    Status 0: it can be read; 1: it is not there; 3: it is damaged.
    """
    target = Target.parse(name, asked).to_change().of_intervals()
    if interval is not None and target.asked is not None:
        raise ConfigError("expected the interval once, in the target or by --interval, got both")
    asked = target.asked if interval is None else interval
    with error_console().status(f"{target.name}: verifying"):
        found = use_public_set(target.name, interval=asked, root=root)
    shown = ("name", "version", "state", "splits", "bytes", "source", "documents", "path")
    report = found.to_json()
    pairs = Table.of_pairs({key: report[key] for key in shown})
    return Result(report, [pairs, _examples(found)])


def _examples(found: PublicUse) -> str:
    lines = [""] if found.setting is None else ["", "once, for all programs:", f"  {found.setting}"]
    for what, code in found.examples().items():
        lines += [f"{what}:", *(f"  {line}" for line in code)]
    return "\n".join(lines)

"""``trainfeed new``, ``schema``, ``public`` and ``uploads``: what data sets begin with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from trainfeed.cli.arguments import complete_target, readable_environment
from trainfeed.cli.printing import (
    error_console,
    print_json,
    print_mapping,
    print_message,
    print_rows,
    printable_lines,
    program,
)
from trainfeed.cli.scaffold import new_dataset
from trainfeed.core.config import PUBLIC_FOLDER, environment_from_environ
from trainfeed.errors import RootError
from trainfeed.publicsets import (
    PublicUse,
    build_public_set,
    known_public_root,
    list_public_sets,
    public_root,
    use_public_set,
)
from trainfeed.specification import check_name, json_schema_text, load_spec
from trainfeed.uploads import (
    IntervalUploads,
    Receipt,
    ReceiptBook,
    UploadsReport,
    check_uploads,
    interval_uploads,
)
from trainfeed.versions import DatasetFolder, require_readable_root, require_root
from trainfeed.versions.layout import generation_name

if TYPE_CHECKING:
    pass


# --- ``trainfeed new`` and ``schema``: makes a data set, and prints the schema of its file


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


# --- ``trainfeed public``: data sets that every user of a data centre reads

public = typer.Typer(
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
_PUBLIC_COLUMNS: Final = (
    "name",
    "kind",
    "state",
    "version",
    "samples",
    "bytes",
    "licence",
    "origin",
)
_DAMAGED: Final = 3


@public.command("ls", epilog="Example: trainfeed public ls")
def list_public(*, root: _Root = None, as_json: _Json = False) -> None:
    """List the public sets: those that are published, and those that trainfeed can build.

    Status 3 when a set is damaged; the others are listed all the same.
    """
    place = known_public_root() if root is None else public_root(root)
    rows = list_public_sets(place)
    if as_json:
        told = [{**asdict(row), "root": None if place is None else str(place)} for row in rows]
        print_json(told)
    else:
        print_rows(
            _PUBLIC_COLUMNS, [list(asdict(row).values())[: len(_PUBLIC_COLUMNS)] for row in rows]
        )
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


@public.command(
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


@public.command(epilog="Example: trainfeed public use mnist")
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


# --- ``trainfeed uploads``: checks labelled files, and lists them with the state of intervals

uploads = typer.Typer(
    help="Labelled files that are joined with the samples of their interval.",
    epilog="Example: trainfeed uploads check clicks",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(help="The data set.", autocompletion=complete_target)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_UPLOAD_COLUMNS: Final = ("receipt", "upload", "rows", "labels", "sha256", "state")
_DIGEST_CHARS: Final = 12


@uploads.callback()
def _group() -> None:
    """Labelled files that are joined with the samples of their interval."""


@uploads.command("check", epilog="Example: trainfeed uploads check clicks")
def check(name: Name, *, as_json: Json = False) -> None:
    """Check the uploads of a data set that have no receipt yet.

    Every file is read once. Status 3 when one is refused; nothing of it is used.
    """
    env = environment_from_environ()
    spec = load_spec(env.datasets / check_name(name))
    require_root(env.root, env.root_setting)
    folder = DatasetFolder(Path(env.root), spec.name)
    report = check_uploads(spec, folder)
    # A retired interval is told of where it got an upload just now: nothing else waits for it.
    waiting = [
        each
        for each in interval_uploads(folder)
        if each.waiting and (each.interval in report.intervals or not each.is_retired)
        if not each.damage
    ]
    if as_json:
        print_json(
            {
                "dataset": report.dataset,
                "accepted": [asdict(receipt) for receipt in report.accepted],
                "refused": [asdict(refusal) for refusal in report.refused],
                "unfinished": list(report.unfinished),
                "damaged": list(report.damaged),
                "waiting": [each.interval for each in waiting],
            }
        )
    else:
        for receipt in report.accepted:
            typer.echo(printable_lines(_told(receipt)))
        for unfinished in report.unfinished:
            typer.echo(printable_lines(f"{unfinished} is being written: check again later"))
        typer.echo(f"{len(report.accepted)} accepted, {len(report.refused)} refused")
        _advise(name, waiting)
    _end_of_check(report)


@uploads.command("ls", epilog="Example: trainfeed uploads ls clicks")
def list_uploads(name: Name, *, as_json: Json = False) -> None:
    """List the accepted and refused uploads of a data set, and whether versions have them.

    Status 3 when a receipt is damaged or gone; the others are listed all the same.
    """
    env = readable_environment()
    folder = DatasetFolder(Path(env.root), check_name(name))
    found, refused = interval_uploads(folder), ReceiptBook(folder).refusals()
    rows = sorted(row for each in found for row in _rows(each))
    if as_json:
        accepted = [dict(zip(_UPLOAD_COLUMNS, row, strict=True)) for row in rows]
        print_json({"accepted": accepted, "refused": [asdict(refusal) for refusal in refused]})
        _end_of_list(found)
        return
    print_rows(_UPLOAD_COLUMNS, [[*row[:4], row[4][:_DIGEST_CHARS], row[5]] for row in rows])
    for refusal in refused:
        print_message(f"{refusal.name} is refused: {refusal.reason}")
    _advise(name, [e for e in found if e.waiting and not (e.is_retired or e.damage)])
    _end_of_list(found)


def _end_of_list(found: Sequence[IntervalUploads]) -> None:
    damaged = [each for each in found if each.damage]
    for each in damaged:
        print_message(f"{each.interval}: {each.damage}")
    if damaged:
        raise typer.Exit(3)


def _rows(found: IntervalUploads) -> list[tuple[Any, ...]]:
    waiting = {receipt.number for receipt in found.waiting}
    version = "" if found.generation is None else f" {generation_name(found.generation)}"
    return [
        (
            receipt.number,
            receipt.name,
            receipt.rows,
            receipt.keys,
            receipt.sha256,
            _state(found, receipt) if receipt.number in waiting else f"in{version}",
        )
        for receipt in found.receipts
    ]


def _state(found: IntervalUploads, receipt: Receipt) -> str:
    is_removed = found.is_retired and receipt.number in found.removed
    return "retired, removed" if is_removed else found.state


def _told(receipt: Receipt) -> str:
    labels = f"rows {receipt.rows}, labels {receipt.keys}"
    return f"receipt {receipt.number}: {receipt.name}, {labels}, {receipt.sha256[:_DIGEST_CHARS]}"


def _advise(name: str, waiting: Sequence[IntervalUploads]) -> None:
    """Print the commands that build the intervals with uploads that no version has."""
    for each in waiting:
        rebuild = "" if each.state == "not built" else " --rebuild WHY"
        command = f"{program()} build {name} --interval {each.interval}{rebuild}"
        typer.echo(printable_lines(f"{each.interval}: {each.state}; {command}"))


def _end_of_check(report: UploadsReport) -> None:
    for refusal in report.refused:
        print_message(f"{refusal.name} is refused: {refusal.reason}")
    for damage in report.damaged:
        print_message(damage)
    if report.refused or report.damaged:
        raise typer.Exit(3)

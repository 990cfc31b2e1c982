"""``trainfeed new``, ``schema``, ``public`` and ``uploads``: what data sets begin with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from trainfeed.cli.arguments import complete_target, readable_environment
from trainfeed.cli.printing import Message, Part, Result, Table, error_console, program, with_json
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
    Refusal,
    check_uploads,
    interval_uploads,
)
from trainfeed.versions import DatasetFolder, require_readable_root, require_root
from trainfeed.versions.layout import generation_name

# --- ``trainfeed new`` and ``schema``: makes a data set, and prints the schema of its file


@with_json
def new(
    name: Annotated[str, typer.Argument(help="Name: lower-case letters, digits and _.")],
    *,
    batch: Annotated[
        bool,
        typer.Option("--batch", help="Write a function that gets many records at once, as arrays."),
    ] = False,
) -> Result:
    """Make the folder of a new data set, with comments and sample records, ready to build."""
    env = environment_from_environ()
    made = new_dataset(env.datasets, name, batch=batch)
    command, interval = program(), made["interval"]
    build = f"{command} build {name} --interval {interval}"
    return Result(
        made,
        f"made {made['folder']}: {', '.join(made['files'])} ({made['records']} sample records)\n"
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


@public.command("ls", epilog="Example: trainfeed public ls")
@with_json
def list_public(*, root: _Root = None) -> Result:
    """List the public sets: those that are published, and those that trainfeed can build.

    Status 3 when a set is damaged; the others are listed all the same.
    """
    place = known_public_root() if root is None else public_root(root)
    rows = list_public_sets(place)
    found = [{**asdict(row), "root": None if place is None else str(place)} for row in rows]
    unknown = (
        f"no publication root of public sets is known here: set {PUBLIC_FOLDER}, or name one"
        " with --root"
    )
    damaged = [f"{row.name} is damaged: {row.damaged}" for row in rows if row.damaged is not None]
    return Result(
        found,
        Table(_PUBLIC_COLUMNS, [list(row.values())[: len(_PUBLIC_COLUMNS)] for row in found]),
        [*([unknown] if place is None else []), *damaged],
        Result.DAMAGED if damaged else 0,
    )


@public.command(
    epilog="Example: trainfeed public build mnist --from idx --root /pfs/dc1/public/dataset"
)
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
    root: _Root = None,
    work: Annotated[
        Path | None,
        typer.Option(help="Folder for files that are needed until the build ends."),
    ] = None,
) -> Result:
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
    shown = ("dataset", "version", "verdict", "originals", "samples", "bytes", "source", "root")
    report = built.to_json()
    return Result(report, Table.of_pairs({key: report[key] for key in shown}))


@public.command(epilog="Example: trainfeed public use mnist")
@with_json
def use(
    name: Annotated[str, typer.Argument(help="Name of a published set.")],
    *,
    interval: Annotated[
        str | None, typer.Option(help="Interval, for a set that has several.")
    ] = None,
    root: _Root = None,
) -> Result:
    """Verify every byte of a public set, and show how programs and trainings read it.

    Status 0: it can be read; 1: it is not there; 3: it is damaged.
    """
    with error_console().status(f"{name}: verifying"):
        found = use_public_set(name, interval=interval, root=root)
    shown = ("name", "version", "state", "splits", "bytes", "source", "documents", "path")
    report = found.to_json()
    pairs = Table.of_pairs({key: report[key] for key in shown})
    return Result(report, [pairs, _examples(found)])


def _examples(found: PublicUse) -> str:
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

_UPLOAD_COLUMNS: Final = ("receipt", "upload", "rows", "labels", "sha256", "state")
_DIGEST_CHARS: Final = 12


@uploads.callback()
def _group() -> None:
    """Labelled files that are joined with the samples of their interval."""


@uploads.command("check", epilog="Example: trainfeed uploads check clicks")
@with_json
def check(name: Name) -> Result:
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
    return Result(
        {
            "dataset": report.dataset,
            "accepted": [asdict(receipt) for receipt in report.accepted],
            "refused": [asdict(refusal) for refusal in report.refused],
            "unfinished": list(report.unfinished),
            "damaged": list(report.damaged),
            "waiting": [each.interval for each in waiting],
        },
        [
            *map(_receipt_line, report.accepted),
            *(f"{each} is being written: check again later" for each in report.unfinished),
            f"{len(report.accepted)} accepted, {len(report.refused)} refused",
            *_advice(name, waiting),
        ],
        [*map(_refusal_line, report.refused), *report.damaged],
        Result.DAMAGED if report.refused or report.damaged else 0,
    )


@uploads.command("ls", epilog="Example: trainfeed uploads ls clicks")
@with_json
def list_uploads(name: Name) -> Result:
    """List the accepted and refused uploads of a data set, and whether versions have them.

    Status 3 when a receipt is damaged or gone; the others are listed all the same.
    """
    env = readable_environment()
    folder = DatasetFolder(Path(env.root), check_name(name))
    found, refused = interval_uploads(folder), ReceiptBook(folder).refusals()
    rows = sorted(row for each in found for row in _rows(each))
    accepted = [dict(zip(_UPLOAD_COLUMNS, row, strict=True)) for row in rows]
    waiting = [each for each in found if each.waiting and not (each.is_retired or each.damage)]
    text: list[Part] = [
        Table(_UPLOAD_COLUMNS, [[*row[:4], row[4][:_DIGEST_CHARS], row[5]] for row in rows]),
        *(Message(_refusal_line(each)) for each in refused),
        *_advice(name, waiting),
    ]
    damaged = [f"{each.interval}: {each.damage}" for each in found if each.damage]
    return Result(
        {"accepted": accepted, "refused": [asdict(refusal) for refusal in refused]},
        text,
        damaged,
        Result.DAMAGED if damaged else 0,
    )


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


def _receipt_line(receipt: Receipt) -> str:
    labels = f"rows {receipt.rows}, labels {receipt.keys}"
    return f"receipt {receipt.number}: {receipt.name}, {labels}, {receipt.sha256[:_DIGEST_CHARS]}"


def _refusal_line(refusal: Refusal) -> str:
    return f"{refusal.name} is refused: {refusal.reason}"


def _advice(name: str, waiting: Sequence[IntervalUploads]) -> Iterator[str]:
    """Yield the commands that build the intervals with uploads that no version has."""
    for each in waiting:
        rebuild = "" if each.state == "not built" else " --rebuild WHY"
        command = f"{program()} build {name} --interval {each.interval}{rebuild}"
        yield f"{each.interval}: {each.state}; {command}"

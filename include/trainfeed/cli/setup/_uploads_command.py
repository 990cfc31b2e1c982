"""``trainfeed uploads``: checks labelled files, and lists them with the state of intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from trainfeed.cli._known_datasets import complete_target, readable_environment
from trainfeed.cli._printing import print_json, print_message, print_rows, printable_lines, program
from trainfeed.config import environment_from_environ
from trainfeed.dataset import DatasetFolder, require_root
from trainfeed.dataset.layout import generation_name
from trainfeed.specification import check_name, load_spec
from trainfeed.uploads import (
    IntervalUploads,
    Receipt,
    ReceiptBook,
    UploadsReport,
    check_uploads,
    interval_uploads,
)

__all__ = ["app"]

app = typer.Typer(
    help="Labelled files that are joined with the samples of their interval.",
    epilog="Example: trainfeed uploads check clicks",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(help="The data set.", autocompletion=complete_target)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_COLUMNS: Final = ("receipt", "upload", "rows", "labels", "sha256", "state")
_DIGEST_CHARS: Final = 12


@app.callback()
def _group() -> None:
    """Labelled files that are joined with the samples of their interval."""


@app.command("check", epilog="Example: trainfeed uploads check clicks")
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


@app.command("ls", epilog="Example: trainfeed uploads ls clicks")
def ls(name: Name, *, as_json: Json = False) -> None:
    """List the accepted and refused uploads of a data set, and whether versions have them.

    Status 3 when a receipt is damaged or gone; the others are listed all the same.
    """
    env = readable_environment()
    folder = DatasetFolder(Path(env.root), check_name(name))
    found, refused = interval_uploads(folder), ReceiptBook(folder).refusals()
    rows = sorted(row for each in found for row in _rows(each))
    if as_json:
        accepted = [dict(zip(_COLUMNS, row, strict=True)) for row in rows]
        print_json({"accepted": accepted, "refused": [asdict(refusal) for refusal in refused]})
        _end_of_list(found)
        return
    print_rows(_COLUMNS, [[*row[:4], row[4][:_DIGEST_CHARS], row[5]] for row in rows])
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

"""``trainfeed boundaries``: compares boundary files with today's rule, and restores them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from trainfeed.cli._known_datasets import known_folder, readable_environment
from trainfeed.cli._printing import print_json, print_message, print_rows, printable_lines
from trainfeed.config import environment_from_environ
from trainfeed.dataset import require_writable_root
from trainfeed.intervals import format_time
from trainfeed.pipeline.inputs.boundary_check import CheckedFile, Repair, check_boundaries, repairs
from trainfeed.pipeline.inputs.recorded_edges import restore_boundaries
from trainfeed.specification import check_name, load_spec

__all__ = ["app"]

app = typer.Typer(
    help="Where intervals begin and end in topics.",
    epilog="Example: trainfeed boundaries check flights",
    no_args_is_help=True,
)

_COLUMNS = ("topic", "at", "verdict", "partition", "stored", "found", "records between")
_WARNING = (
    "until all of these have ended, readers of the intervals see some records twice or not at all;"
    " later intervals need no build: their boundaries are right"
)


@app.callback()
def _group() -> None:
    """Where intervals begin and end in topics."""


@app.command("check", epilog="Example: trainfeed boundaries check flights --json")
def check(
    name: Annotated[str, typer.Argument(help="The data set.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compute every boundary of a data set again from the records of its topics, and compare.

    Nothing is changed. Status 3 when one differs; those whose records the topic no longer holds
    cannot be checked.
    """
    env = readable_environment()
    spec = load_spec(env.datasets / check_name(name))
    files = check_boundaries(spec, env)
    fixes = list(repairs(spec, env, files))
    if as_json:
        print_json({"files": [_file(file) for file in files], "repairs": [_fix(f) for f in fixes]})
    else:
        _print(files, fixes)
    if fixes:
        raise typer.Exit(3)


@app.command("restore", epilog="Example: trainfeed boundaries restore flights")
def restore(
    name: Annotated[str, typer.Argument(help="The data set.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write boundary files that are missing, damaged or changed again, from published versions.

    The manifests of the intervals on both sides have the offsets. No topic is read. Status 3 when
    a file stays as it is, because the two differ or a gap hides the offset.
    """
    require_writable_root(environment_from_environ())
    files = list(restore_boundaries(known_folder(name)))
    rows = [(str(each.path), each.was, each.why_not or "written again") for each in files]
    if as_json:
        print_json({"files": [each._asdict() | {"path": str(each.path)} for each in files]})
    elif rows:
        print_rows(("file", "was", "now"), rows)
    else:
        typer.echo("every boundary file is as the published versions recorded it")
    if any(each.why_not for each in files):
        raise typer.Exit(3)


def _print(files: Sequence[CheckedFile], fixes: Sequence[Repair]) -> None:
    rows = [row for file in files for row in _rows(file)]
    if rows:
        print_rows(_COLUMNS, rows)
    counts = {
        verdict: sum(file.verdict == verdict for file in files)
        for verdict in ("right", "differs", "cannot be checked")
    }
    typer.echo(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    for fix in fixes:
        intervals = ", ".join(fix.intervals) or "none of the schedule"
        typer.echo(printable_lines(f"\ntopic {fix.topic}, intervals {intervals}:"))
        typer.echo(printable_lines("\n".join(fix.commands)))
    if fixes:
        print_message(_WARNING)


def _rows(file: CheckedFile) -> list[tuple[object, ...]]:
    head = (file.topic, format_time(file.at), file.verdict)
    if file.verdict != "right" and not file.differences:
        return [(*head, "", "", "", "")]
    return [
        (*head, each.partition, each.stored, "" if each.found is None else each.found, each.records)
        for each in file.differences
    ]


def _file(file: CheckedFile) -> dict[str, Any]:
    differences = [
        {
            "partition": each.partition,
            "stored": each.stored,
            "found": each.found,
            "records": each.records,
        }
        for each in file.differences
    ]
    return {
        "path": str(file.path),
        "topic": file.topic,
        "at": format_time(file.at),
        "verdict": file.verdict,
        "partitions": differences,
    }


def _fix(fix: Repair) -> dict[str, Any]:
    return {
        "topic": fix.topic,
        "intervals": list(fix.intervals),
        "commands": list(fix.commands),
        "warning": _WARNING,
    }

"""``trainfeed outdated``: which versions today's code and specification would build otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from trainfeed.cli._known_datasets import (
    known_folder,
    readable_environment,
    specified,
)
from trainfeed.cli._outdated_table import counted, print_outdated, told_cost
from trainfeed.cli._printing import print_json, print_message, print_rows
from trainfeed.cli.file import progress
from trainfeed.cli.versions._optional_range import NameOrAll, RangeOrAll, name_and_range
from trainfeed.config import Environment
from trainfeed.dataset.root import data_sets_of
from trainfeed.errors import NotFoundError, TrainFeedError
from trainfeed.intervals import TimeRange, parse_range
from trainfeed.outdated import OutdatedReport, compare_with_source, find_outdated
from trainfeed.specification import load_spec

__all__ = ["outdated"]

_SET_COLUMNS: Final = ("dataset", "intervals", "first cause", "cost of bringing forward")


def outdated(
    name: NameOrAll = None,
    asked: RangeOrAll = None,
    *,
    against_source: Annotated[
        bool,
        typer.Option(
            "--against-source",
            help="Also ask the source: changed files, replaced topics, deleted and late records."
            " Slower.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the versions that today's code, specification, lookups or uploads would build otherwise.

    Status 0 when there are none; 1 when there are some, a source differs, or nothing is
    published; 3 when a version cannot be read.
    """
    env = readable_environment()
    if name is None:
        _show_all(env, against_source=against_source, as_json=as_json)
        return
    name, asked = name_and_range(name, asked)
    known_folder(name)
    span = parse_range(asked) if asked else None
    report = _report(env, name, span, against_source=against_source)
    if not report.intervals:
        raise NotFoundError(
            f"data set {name!r} has no published version, so nothing was compared; build one:"
            f" trainfeed build {name} --interval I"
        )
    print_json(report.to_json()) if as_json else print_outdated(report)
    _end([report], is_whole=True)


def _report(
    env: Environment, name: str, span: TimeRange | None, *, against_source: bool
) -> OutdatedReport:
    spec = load_spec(env.datasets / name)
    report = find_outdated(spec, env, span=span)
    if not against_source:
        return report
    with progress(f"asking the source of {name}") as tell:
        return compare_with_source(spec, env, report, on_interval=tell)


def _show_all(env: Environment, *, against_source: bool, as_json: bool) -> None:
    found: list[OutdatedReport] = []
    errors: dict[str, TrainFeedError] = {}
    names = specified(env)
    for name in sorted(names):
        try:
            found.append(_report(env, name, None, against_source=against_source))
        except TrainFeedError as error:
            errors[name] = error
    if as_json:
        failed = [{"dataset": name, "error": str(problem)} for name, problem in errors.items()]
        print_json([*(_without_intervals(each) for each in found), *failed])
    else:
        print_rows(_SET_COLUMNS, [_line(each) for each in found])
    for name, problem in errors.items():
        print_message(f"{name}: {type(problem).__name__}: {problem}")
    for each in found:
        for doubt in each.doubts:
            print_message(f"{each.dataset}: {doubt}")
    for name in sorted({*data_sets_of(Path(env.root))} - {*names}):
        print_message(f"{name}: it has no specification in {env.datasets}, and is not compared")
    _end(found, is_whole=not errors)


def _end(found: list[OutdatedReport], *, is_whole: bool) -> None:
    """End with the status for monitors."""
    if any(each.is_unreadable for each in found):
        raise typer.Exit(3)
    if not is_whole or not all(each.is_in_order for each in found):
        raise typer.Exit(1)


def _line(found: OutdatedReport) -> list[object]:
    causes = found.causes
    more = f", and {len(causes) - 1} more" if len(causes) > 1 else ""
    return [
        found.dataset,
        counted(found),
        f"{causes[0].text}{more}" if causes else "",
        told_cost(found.cost) if found.outdated else "",
    ]


def _without_intervals(found: OutdatedReport) -> dict[str, Any]:
    told = found.to_json()
    del told["intervals"]
    return told

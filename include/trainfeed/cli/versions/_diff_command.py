"""``trainfeed diff``: what two versions have not alike."""

from __future__ import annotations

import json
from typing import Annotated, Final

import typer

from trainfeed.cli._known_datasets import complete_target, known_folder
from trainfeed.cli._look_target import LookTarget, known_tag
from trainfeed.cli._places import source_path
from trainfeed.cli._printing import print_json, print_message, printable_lines
from trainfeed.cli.versions._diff_text import difference_lines
from trainfeed.dataset import DatasetFolder
from trainfeed.dataset.layout import is_generation, parse_generation
from trainfeed.difference import (
    RecordCounts,
    Side,
    change_to_json,
    difference,
    record_comparison,
)
from trainfeed.errors import ConfigError

__all__ = ["diff"]

_PATHS: Final = ("/", "./", "../", "pfs://")
_EXAMPLES: Final = 5
_DIFFERS: Final = 3
_USAGE: Final = (
    "expected NAME A B, as in NAME INTERVAL/g0001 INTERVAL/g0002, or two targets with their"
    " names, or two folders of versions, got {!r}"
)


def diff(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME A B",
            help="A, B: I/gNNNN, I, gNNNN with --interval; or two NAME/I/gNNNN or NAME@TAG/I; or"
            " two folders.",
            autocompletion=complete_target,
        ),
    ],
    *,
    interval: Annotated[
        str | None, typer.Option("--interval", help="The interval, if A and B are generations.")
    ] = None,
    number: Annotated[
        int | None,
        typer.Option("-n", "--number", min=0, help="Samples of each kind; 5, of --records all."),
    ] = None,
    records: Annotated[
        bool, typer.Option("--records", help="Only the samples that differ, as JSON lines.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what two versions have not alike: plan, code, lookups, counts, statistics, samples.

    Status 0 when they are equal, 3 when they differ or one is damaged, 1 when it cannot be told.
    """
    first, second = _sides(targets, interval)
    if records:
        _print_records(first, second, number)
        return
    found = difference(first, second, most_records=_EXAMPLES if number is None else number)
    if as_json:
        print_json(found.to_json())
    else:
        for line in difference_lines(found):
            typer.echo(printable_lines(line))
    if found.differs:
        raise typer.Exit(_DIFFERS)
    if not found.is_complete:
        print_message("a version was removed: whether its samples were the same cannot be told")
        raise typer.Exit(1)


def _print_records(first: Side, second: Side, number: int | None) -> None:
    comparison = record_comparison(first, second)
    if isinstance(comparison, str):
        print_message(f"samples cannot be compared: {comparison}")
        raise typer.Exit(1)
    if isinstance(comparison, RecordCounts):
        return
    for change in comparison.changes(number):
        typer.echo(json.dumps(change_to_json(change), sort_keys=True))
    if comparison.counts.has_changes:
        raise typer.Exit(_DIFFERS)


def _sides(targets: list[str], interval: str | None) -> tuple[Side, Side]:
    if len(targets) == 3 and "/" not in targets[0]:
        folder = known_folder(targets[0])
        sides = [_side(folder, each, interval) for each in targets[1:]]
    elif len(targets) == 2 and interval is None:
        sides = [_named(each) for each in targets]
    else:
        raise ConfigError(_USAGE.format(" ".join(targets)[:80]))
    return sides[0], sides[1]


def _named(target: str) -> Side:
    """Return the version of a path, or of a target with its name."""
    if target.startswith(_PATHS):
        return Side.at(source_path(target))
    name, slash, rest = target.partition("/")
    if not slash:
        raise ConfigError(_USAGE.format(target[:80]))
    folder, tag = known_tag(name)
    if tag is None:
        return _side(folder, rest, None)
    version = LookTarget(folder, rest, tag=tag).one()
    return Side.of(folder, version.path.parent.name, version.manifest.generation)


def _side(folder: DatasetFolder, text: str, interval: str | None) -> Side:
    """Return the version of ``I``, ``I/gNNNN``, or of ``gNNNN`` with an interval, or of a path."""
    if text.startswith(_PATHS):
        return Side.at(source_path(text))
    if is_generation(text):
        text = f"{interval or ''}/{text}"
    elif interval is not None:
        raise ConfigError(f"expected a generation beside --interval, such as g0001, got {text!r}")
    asked, _, generation = text.partition("/")
    if not asked:
        raise ConfigError(f"expected --interval beside generations, or I/{text[1:]}, got {text!r}")
    return Side.of(folder, asked, parse_generation(generation) if generation else None)

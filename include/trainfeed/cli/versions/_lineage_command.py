"""``trainfeed lineage``: where data came from, and what came of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainfeed.cli._known_datasets import complete_target, readable_environment
from trainfeed.cli._look_target import parse_target
from trainfeed.cli._printing import print_json, print_message, printable_lines
from trainfeed.cli.versions._lineage_text import lineage_lines
from trainfeed.dataset.retire import generation_for_readers
from trainfeed.dataset.root import data_sets_of
from trainfeed.errors import ConfigError
from trainfeed.lineage import Lineage, SourcePosition, Tracer
from trainfeed.models import parse_version
from trainfeed.specification import check_name

__all__ = ["lineage"]


def lineage(
    target: Annotated[
        str,
        typer.Argument(
            help="NAME/I/gNNNN, NAME/RANGE, NAME@TAG/RANGE or NAME; kafka:TOPIC/PARTITION@OFFSET or"
            " logs:FILE@BYTE; a job; MODEL@ALIAS or MODEL/vNNNN.",
            autocompletion=complete_target,
        ),
    ],
    *,
    up: Annotated[bool, typer.Option("--up", help="Only what went in.")] = False,
    down: Annotated[bool, typer.Option("--down", help="Only what came of it.")] = False,
    dataset: Annotated[
        str | None, typer.Option("--dataset", help="For a position: only this data set.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print nodes and edges as JSON.")] = False,
) -> None:
    """Show what went into a version, job or model, and what came of it, or of a record.

    Status 1 when a position is in no version, 3 when an entry is damaged; the others are shown.
    """
    root = Path(readable_environment().root)
    tracer = Tracer(root, up=up or not down, down=down or not up)
    found = _traced(tracer, root, target, dataset)
    if as_json:
        print_json(found.to_json())
    else:
        for line in lineage_lines(found):
            typer.echo(printable_lines(line))
    for doubt in found.doubts:
        print_message(doubt)
    for entry, why in found.damaged.items():
        print_message(f"{entry} cannot be read, its part is missing: {why}")
    if found.damaged:
        raise typer.Exit(3)
    if not found.focus:
        print_message(f"no version has {target}")
        raise typer.Exit(1)


def _traced(tracer: Tracer, root: Path, target: str, dataset: str | None) -> Lineage:
    if ":" in target:
        only = None if dataset is None else check_name(dataset)
        return tracer.of_position(SourcePosition.parse(target), only)
    if dataset is not None:
        raise ConfigError(f"expected a position beside --dataset, got {target[:80]!r}")
    name, _, rest = target.partition("/")
    if ("@" in target and not rest) or _is_model_version(rest):
        return tracer.of_model(target)
    if not rest and name not in data_sets_of(root):
        return tracer.of_job(name)
    asked = parse_target(target)
    if asked.tag is not None:
        versions = asked.coverage().versions
        found = {each.path.parent.name: each.manifest.generation for each in versions}
        return tracer.of_generations(asked.folder.name, found)
    if asked.asked is None or asked.is_range():
        return tracer.of_range(name, asked.asked)
    number = asked.generation or generation_for_readers(asked.folder, asked.asked)
    return tracer.of_version(name, asked.asked, number)


def _is_model_version(text: str) -> bool:
    try:
        parse_version(text)
    except ConfigError:
        return False
    return True

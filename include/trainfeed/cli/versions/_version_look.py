"""``trainfeed head`` and ``stats``: samples and statistics of a published version."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Final

import typer

from trainfeed.cli._known_datasets import complete_target
from trainfeed.cli._look_target import version_of
from trainfeed.cli._printing import print_json
from trainfeed.cli.file import print_samples, print_statistics
from trainfeed.dataset import Version
from trainfeed.errors import ConfigError
from trainfeed.printable_text import printable
from trainfeed.readers import DatasetReader

__all__ = ["head", "stats"]

_TRAIN: Final = "train"

Target = Annotated[
    str,
    typer.Argument(
        help="NAME/INTERVAL, NAME/INTERVAL/gNNNN, or NAME@TAG/INTERVAL.",
        autocompletion=complete_target,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def head(
    target: Target,
    *,
    split: Annotated[
        str | None, typer.Option(help="Split; train otherwise, or the largest.")
    ] = None,
    number: Annotated[int, typer.Option("-n", "--number", min=0, help="How many.")] = 10,
    as_json: Json = False,
) -> None:
    """Show the first samples of a version."""
    version = version_of(target)
    reader = DatasetReader([version], split or _usual_split(version))
    if not as_json:
        typer.echo(printable(f"{target}, split {reader.split}: {reader.num_samples} samples"))
    print_samples(islice(reader.reader()(), number), use_json=as_json)


def stats(
    target: Target,
    *,
    split: Annotated[str | None, typer.Option(help="Split; all of them otherwise.")] = None,
    as_json: Json = False,
) -> None:
    """Show count, nulls, range, mean and more of every field, as published with the version."""
    version = version_of(target)
    found = version.statistics()
    if split is not None:
        version.num_samples(split)
        found = {split: found[split]}
    if as_json:
        print_json(found)
        return
    for name, result in found.items():
        typer.echo(printable(f"{target}, split {name}: {version.num_samples(name)} samples"))
        print_statistics(result, version.schema)


def _usual_split(version: Version) -> str:
    splits = version.manifest.splits
    if not splits:
        raise ConfigError(f"expected a version with at least one split, got none in {version.path}")
    return _TRAIN if _TRAIN in splits else max(splits, key=lambda name: splits[name].samples)

"""``trainfeed prune``: removes what data sets no longer keep, by their rules."""

from __future__ import annotations

from typing import Annotated

import typer

from trainfeed.cli._known_datasets import complete_target, specified
from trainfeed.cli._printing import error_console, print_json, print_message, print_rows
from trainfeed.cli.upkeep._removal_rows import REMOVAL_COLUMNS, removal_rows
from trainfeed.config import Environment, environment_from_environ
from trainfeed.errors import ConfigError, TrainFeedError
from trainfeed.retention import KINDS, Context, Kind, Removals, prune
from trainfeed.specification import did_you_mean, load_spec

__all__ = ["prune_dataset"]


def prune_dataset(
    name: Annotated[
        str | None, typer.Argument(help="The data set.", autocompletion=complete_target)
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="All data sets.")] = False,
    kind: Annotated[
        list[str] | None,
        typer.Option(help=f"Only this kind, of {', '.join(each.name for each in KINDS)}."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would be removed.")
    ] = False,
    clock_is_right: Annotated[
        str | None,
        typer.Option(
            metavar="WHY", help="The clock is right, although times in the data set differ."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Remove what `retention` in dataset.yaml does not keep; never what is in use.

    Status 1 when a data set could not be pruned, or stays above its `max_bytes`.
    """
    env = environment_from_environ()
    env.refuse_public_root()
    kinds = _asked(kind)
    names = _names(env, name, every=every)
    found: dict[str, Removals] = {}
    errors: dict[str, TrainFeedError] = {}
    for each in names:
        try:
            with error_console().status(f"{each}: what is not kept"):
                context = Context.of(load_spec(env.datasets / each), env)
                found[each] = prune(context, kinds, dry_run=dry_run, clock_is_right=clock_is_right)
        except TrainFeedError as error:
            if not every:
                raise
            errors[each] = error
    _print_json(found, errors) if as_json else _print(found, dry_run=dry_run)
    for each, problem in errors.items():
        print_message(f"{each}: {type(problem).__name__}: {problem}")
    if errors or any(removals.excess for removals in found.values()):
        raise typer.Exit(1)


def _asked(names: list[str] | None) -> list[Kind]:
    known = {each.name: each for each in KINDS}
    for name in names or []:
        if name not in known:
            raise ConfigError(f"expected a kind, got {name!r}; {did_you_mean(name, known)}")
    return [each for each in KINDS if not names or each.name in names]


def _names(env: Environment, name: str | None, *, every: bool) -> list[str]:
    if (name is None) != every:
        raise ConfigError("expected the name of a data set, or --all for all of them")
    return sorted(specified(env)) if name is None else [name]


def _print_json(found: dict[str, Removals], errors: dict[str, TrainFeedError]) -> None:
    failed = [{"dataset": name, "error": str(error)} for name, error in errors.items()]
    print_json([*({"dataset": name, **each.to_json()} for name, each in found.items()), *failed])


def _print(found: dict[str, Removals], *, dry_run: bool) -> None:
    will_go = "would remove" if dry_run else "removed"
    rows = [
        row
        for name, removals in found.items()
        for row in removal_rows(name, removals, dry_run=dry_run)
    ]
    if rows:
        print_rows(REMOVAL_COLUMNS, rows)
    for name, removals in found.items():
        for kind, (number, size) in removals.by_kind().items():
            typer.echo(f"{name}: {will_go} {number} {kind}, {size} bytes")
        if not removals.expired:
            typer.echo(f"{name}: {will_go} nothing")
        for excess in removals.excess:
            print_message(f"{name}: {excess.told}")

"""``trainfeed history``: what people and upkeep changed in a data set."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from trainfeed.accounts import person
from trainfeed.cli._known_datasets import complete_target, known_folder
from trainfeed.cli._printing import print_json, print_message, print_rows
from trainfeed.dataset.history import Action, DamagedAction, actions, missing_marks
from trainfeed.intervals import parse_time

__all__ = ["history"]


def history(
    name: Annotated[str, typer.Argument(help="The data set.", autocompletion=complete_target)],
    *,
    action: Annotated[
        str | None, typer.Option(help="Only this one: withdraw, restore, tag, repair, prune, ….")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Only from this time, UTC, as 2026-03-08.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what people and upkeep changed in a data set, the oldest first.

    An action whose mark is not there is told: it was killed, or the mark was lost. Status 3 when a
    file of the history is damaged.
    """
    folder = known_folder(name)
    found = list(actions(folder))
    damaged = [each for each in found if isinstance(each, DamagedAction)]
    chosen = _chosen((each for each in found if isinstance(each, Action)), action, since)
    if as_json:
        unread = [{"path": str(each.path), "damaged": each.why} for each in damaged]
        print_json([*(each.to_json() for each in chosen), *unread])
    elif chosen:
        print_rows(("at", "action", "target", "who", "why"), [_row(each) for each in chosen])
    else:
        typer.echo(f"{name}: no such action")
    for each in damaged:
        print_message(f"{each.path} is damaged: {each.why}")
    for missing in missing_marks(folder, found):
        print_message(missing.told)
    if damaged:
        raise typer.Exit(3)


def _chosen(found: Iterable[Action], action: str | None, since: str | None) -> list[Action]:
    begin = None if since is None else parse_time(since)
    return [
        each
        for each in found
        if (action is None or each.action == action)
        and (begin is None or parse_time(each.at) >= begin)
    ]


def _row(each: Action) -> list[object]:
    return [each.at, each.action, each.told_target, person(each.who, each.account), each.why]

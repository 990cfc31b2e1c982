"""``trainfeed withdraw``: hides a generation from readers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from trainfeed.accounts import account_name
from trainfeed.cli._printing import error_console, print_json, print_message, printable_lines
from trainfeed.cli.corrections._one_generation import Target, one_generation
from trainfeed.config import environment_from_environ
from trainfeed.dataset.layout import generation_name
from trainfeed.errors import ConfigError
from trainfeed.withdrawal import Maker, Withdrawn
from trainfeed.withdrawal import withdraw as hide

__all__ = ["withdraw"]

_DRY_RUN = "a dry run"


def withdraw(
    target: Target,
    *,
    why: Annotated[str | None, typer.Option(help="The reason, which the mark keeps.")] = None,
    who: Annotated[str | None, typer.Option(help="By default the account.")] = None,
    move_tags: Annotated[
        bool,
        typer.Option("--move-tags", help="Tags that name it then name what readers get."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, and change nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Hide a published version: readers turn to the generation before, which is verified first.

    The same content is not built again without a new reason; trainfeed restore takes it back.
    Without gNNNN, the version that readers get. Status 1 when it is withdrawn already for another
    reason, 3 when the generation before is damaged; nothing is changed then.
    """
    if why is None and not dry_run:
        raise ConfigError("expected --why, or --dry-run; nothing was changed")
    asked, account = one_generation(target), account_name()
    maker = Maker(who or account, account, why or _DRY_RUN)
    with error_console().status(f"{target}: verifying what readers turn to"):
        done = hide(environment_from_environ(), *asked, maker, move_tags=move_tags, dry_run=dry_run)
    if as_json:
        print_json(_told(done, dry_run=dry_run))
    else:
        _print(done, dry_run=dry_run)


def _told(done: Withdrawn, *, dry_run: bool) -> dict[str, object]:
    gets = None if done.readers_get is None else generation_name(done.readers_get)
    tags = {"tags": list(done.tags), "moved_tags": list(done.moved_tags)}
    facts = {"target": done.mark.name, "readers_get": gets, **tags}
    return {**facts, "withdrawn": asdict(done.mark), "dry_run": dry_run, "written": done.is_new}


def _print(done: Withdrawn, *, dry_run: bool) -> None:
    mark, name = done.mark, f"{done.mark.dataset}/{done.mark.interval}"
    if dry_run:
        typer.echo(printable_lines(f"{mark.name} would be withdrawn; nothing was changed"))
    else:
        typer.echo(printable_lines(mark.told))
    if done.readers_get is None:
        print_message(f"no version of {name} is left for readers")
    else:
        print_message(f"readers get {name}/{generation_name(done.readers_get)}")
    for tag in done.moved_tags:
        print_message(f"{mark.dataset}@{tag} {'would name' if dry_run else 'names'} that one, too")
    for tag in done.tags:
        print_message(
            f"{mark.dataset}@{tag} names it, and opening {mark.dataset}@{tag} fails; to move the"
            f" tag, withdraw with --move-tags, or: trainfeed tag {mark.dataset} RANGE {tag}"
        )
    if not dry_run:
        print_message(f"to take it back: trainfeed restore {mark.name} --why WHY")

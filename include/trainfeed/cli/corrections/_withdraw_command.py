"""``trainfeed withdraw``: hides a generation from readers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from trainfeed.accounts import account_name
from trainfeed.cli._decision_options import Who, Why, named_person, reason_or_dry_run
from trainfeed.cli._printing import error_console, print_json, print_result
from trainfeed.cli.corrections._one_generation import Target, one_generation
from trainfeed.config import environment_from_environ
from trainfeed.dataset.layout import generation_name
from trainfeed.withdrawal import Maker, Withdrawn, withdrawn_lines
from trainfeed.withdrawal import withdraw as hide

__all__ = ["withdraw"]

_DAMAGED = 3


def withdraw(
    target: Target,
    *,
    why: Why = None,
    who: Who = None,
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
    Without gNNNN, the version that readers get, unless a newer one is withdrawn already. Status 1
    when it is withdrawn already for another reason, 3 when the generation before or a tag is
    damaged; nothing is changed then. If a tag cannot be moved or read after the withdrawal, the
    message says that the version is withdrawn; status 1, or 3 for damage.
    """
    reason = reason_or_dry_run(why, dry_run=dry_run)
    asked, account = one_generation(target), account_name()
    maker = Maker(named_person(who), account, reason)
    with error_console().status(f"{target}: verifying what readers turn to"):
        done = hide(environment_from_environ(), *asked, maker, move_tags=move_tags, dry_run=dry_run)
    if as_json:
        print_json(_told(done, dry_run=dry_run))
    else:
        print_result(withdrawn_lines(done, dry_run=dry_run))
    if done.tag_problems:
        raise typer.Exit(_DAMAGED if any(each.is_damage for each in done.tag_problems) else 1)


def _told(done: Withdrawn, *, dry_run: bool) -> dict[str, object]:
    gets = None if done.readers_get is None else generation_name(done.readers_get)
    tags = {
        "tags": list(done.tags),
        "moved_tags": list(done.moved_tags),
        "tag_problems": [each.to_json() for each in done.tag_problems],
    }
    facts = {"target": done.mark.name, "readers_get": gets, **tags}
    return {**facts, "withdrawn": asdict(done.mark), "dry_run": dry_run, "written": done.is_new}

"""``trainfeed withdraw``: hides a generation from readers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from trainfeed.accounts import account_name
from trainfeed.cli._decision_options import Who, Why, named_person, reason_or_dry_run
from trainfeed.cli._printing import error_console, print_json, print_message, printable_lines
from trainfeed.cli.corrections._one_generation import Target, one_generation
from trainfeed.config import environment_from_environ
from trainfeed.dataset.layout import generation_name
from trainfeed.dataset.tags import TagProblem
from trainfeed.dataset.withdrawals import Withdrawal
from trainfeed.withdrawal import Maker, Withdrawn
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
        _print(done, dry_run=dry_run)
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
            f" tag, withdraw with --move-tags, or: trainfeed tag {mark.dataset} RANGE {tag} --why"
            " WHY"
        )
    for problem in done.tag_problems:
        print_message(_problem(mark, problem, dry_run=dry_run))
    if not dry_run:
        print_message(f"to take it back: trainfeed restore {mark.name} --why WHY")


def _problem(mark: Withdrawal, problem: TagProblem, *, dry_run: bool) -> str:
    """Return what became of a tag, beside the withdrawal."""
    state = "would be withdrawn" if dry_run else "is withdrawn"
    tag = f"{mark.dataset}@{problem.tag}" if problem.tag else f"the tags of {mark.dataset}"
    verb = "cannot be read" if problem.is_damage or not problem.tag else "was not moved"
    again = "" if dry_run else "; when that is mended, the same command again does the rest"
    return f"{mark.name} {state}; {tag} {verb}: {problem.error}{again}"

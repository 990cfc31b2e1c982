"""``trainfeed restore``: gives a withdrawn generation back to readers."""

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
from trainfeed.withdrawal import Maker, Restored, restored_lines
from trainfeed.withdrawal import restore as give_back

__all__ = ["restore"]


def restore(
    target: Target,
    *,
    why: Why = None,
    who: Who = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, and change nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Take a withdrawal back: the version is verified, and readers may get it again.

    Without gNNNN, the newest withdrawn generation. The mark stays under another name. Status 1 when
    nothing is withdrawn or its files were removed, 3 when it is damaged.
    """
    reason = reason_or_dry_run(why, dry_run=dry_run)
    asked, account = one_generation(target), account_name()
    maker = Maker(named_person(who), account, reason)
    with error_console().status(f"{target}: verifying"):
        done = give_back(environment_from_environ(), *asked, maker, dry_run=dry_run)
    if as_json:
        print_json(_told(done, dry_run=dry_run))
    else:
        print_result(restored_lines(done, dry_run=dry_run))


def _told(done: Restored, *, dry_run: bool) -> dict[str, object]:
    gets = None if done.readers_get is None else generation_name(done.readers_get)
    facts = {"target": done.mark.name, "readers_get": gets, "withdrawn": asdict(done.mark)}
    return {**facts, "dry_run": dry_run, "written": done.is_new}

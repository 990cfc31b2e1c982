"""``trainfeed accept-hole``: readers go without a part between two versions, by decision."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from trainfeed.cli._decision_options import Who, Why, reason_or_dry_run
from trainfeed.cli._known_datasets import complete_target, known_folder
from trainfeed.cli._printing import print_json, print_message, printable_lines
from trainfeed.cli.corrections._writable import writable_folder
from trainfeed.dataset.accept_hole import accept_hole as accept
from trainfeed.dataset.accept_hole import revoke_hole
from trainfeed.dataset.tag_files import Decision
from trainfeed.errors import ConfigError

__all__ = ["accept_hole"]


def accept_hole(
    target: Annotated[
        str, typer.Argument(help="NAME/RANGE, as messages name it.", autocompletion=complete_target)
    ],
    *,
    why: Why = None,
    who: Who = None,
    revoke: Annotated[bool, typer.Option("--revoke", help="Take the acceptance back.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, and change nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Let readers go without a part between two versions into which no interval fits.

    A moved time of day leaves such a hole. Readers of a range with it list it with who and why.
    Status 1 when it is no hole, or when an interval of the schedule fits: build that one.
    """
    reason = reason_or_dry_run(why, dry_run=dry_run)
    name, _, asked = target.partition("/")
    if not asked:
        raise ConfigError(f"expected NAME/RANGE, got {target!r}; nothing was changed")
    folder = known_folder(name) if dry_run else writable_folder(name)
    decide = revoke_hole if revoke else accept
    hole, is_changed = decide(folder, asked, Decision.now(reason, who=who), dry_run=dry_run)
    if as_json:
        print_json({"hole": asdict(hole), "dry_run": dry_run, "written": is_changed})
        return
    if dry_run:
        state = "would be missing again" if revoke else "would be accepted"
        typer.echo(printable_lines(f"{name}/{hole.range} {state}; nothing was changed"))
        return
    state = "is missing again; it was" if revoke else "is"
    typer.echo(printable_lines(f"{name}/{hole.range} {state} {hole.told}"))
    if not revoke:
        print_message(f"to take it back: trainfeed accept-hole {target} --revoke --why WHY")

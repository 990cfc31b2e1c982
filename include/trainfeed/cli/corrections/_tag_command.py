"""``trainfeed tag``: gives a tag, or moves it to other versions."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from trainfeed.cli._decision_options import Who, Why, reason_or_dry_run
from trainfeed.cli._known_datasets import complete_target, known_folder
from trainfeed.cli._printing import (
    error_console,
    print_json,
    print_message,
    print_rows,
    printable_lines,
)
from trainfeed.cli.corrections._writable import writable_folder
from trainfeed.dataset.tag import TagProposal, apply_change, propose_tag
from trainfeed.dataset.tag_files import Decision

__all__ = ["tag"]

_COLUMNS: Final = ("interval", "from", "to")
# Rows of the table; --json has all of them.
_ROWS: Final = 40


def tag(  # noqa: PLR0913 - options of a command
    name: Annotated[str, typer.Argument(help="The data set.", autocompletion=complete_target)],
    asked: Annotated[
        str,
        typer.Argument(
            metavar="RANGE",
            help="2013-01-01, 2013-01, a/b: the versions that readers get now; I/gNNNN; @TAG or"
            " @TAG#3: what a tag names, or named.",
        ),
    ],
    new: Annotated[str, typer.Argument(metavar="TAG", help="The tag, such as prod or jan-2026.")],
    *,
    why: Why = None,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Leave out intervals without a version.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare every file of the versions before.")
    ] = False,
    who: Who = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show which intervals would change.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Give the versions of a range a name that does not follow later builds, or move it.

    The tag changes as a whole, or not at all; a reader that has opened it keeps its versions.
    Status 1 when an interval has no version, or another change came between.
    """
    reason = reason_or_dry_run(why, dry_run=dry_run)
    folder = known_folder(name) if dry_run else writable_folder(name)
    decision = Decision.now(reason, who=who)
    with error_console().status(f"{name}@{new}"):
        proposal = propose_tag(
            folder, asked, new, decision, allow_missing=allow_missing, verify=verify
        )
    is_new = False if dry_run else apply_change(folder, proposal)[1]
    if as_json:
        print_json(_told(name, proposal, dry_run=dry_run, is_new=is_new))
    else:
        _print(name, proposal, dry_run=dry_run, is_new=is_new)


def _told(name: str, proposal: TagProposal, *, dry_run: bool, is_new: bool) -> dict[str, Any]:
    before, after = proposal.before, proposal.after
    return {
        "dataset": name,
        "tag": after.tag,
        "range": after.range,
        "versions": len(after.versions),
        "left_out": [skip.interval for skip in after.left_out],
        "accepted": [hole.range for hole in after.accepted],
        "before": None if before is None else before.number,
        "number": after.number if proposal.is_change or before is None else before.number,
        "changes": [change.to_json() for change in proposal.changes],
        "dry_run": dry_run,
        "written": is_new,
    }


def _print(name: str, proposal: TagProposal, *, dry_run: bool, is_new: bool) -> None:
    after, changes = proposal.after, proposal.changes
    if changes:
        shown = [change.to_json() for change in changes[:_ROWS]]
        print_rows(_COLUMNS, [[row[each] or "-" for each in _COLUMNS] for row in shown])
    if len(changes) > _ROWS:
        print_message(f"… and {len(changes) - _ROWS} more; --json has all of them")
    for skip in after.left_out:
        is_hole = dry_run and skip.interval in after.missing
        why = "it would be left out" if is_hole else skip.why
        print_message(f"{skip.interval} has no version in it: {why}")
    for hole in after.accepted:
        print_message(f"{hole.range} is in no version, {hole.told}")
    count = f"{len(after.versions)} versions of {after.range}, {len(changes)} of them changed"
    if is_new:
        text = f"{name}@{after.tag} is change {after.number}: {count}"
    elif not proposal.is_change and proposal.before is not None:
        text = f"{name}@{after.tag} names these versions already; nothing was changed"
    else:
        text = f"{name}@{after.tag} would become change {after.number}: {count}"
    typer.echo(printable_lines(text))

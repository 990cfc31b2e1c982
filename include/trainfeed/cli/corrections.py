"""``trainfeed withdraw``, ``restore``, ``tag``, ``untag``, ``accept-hole``: people's decisions."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from trainfeed.cli.arguments import (
    Who,
    Why,
    complete_target,
    known_folder,
    named_person,
    reason_or_dry_run,
    writable_folder,
)
from trainfeed.cli.named_versions import Target, one_generation
from trainfeed.cli.printing import (
    error_console,
    print_json,
    print_message,
    print_result,
    print_rows,
    printable_lines,
)
from trainfeed.core.accounts import account_name
from trainfeed.core.config import environment_from_environ
from trainfeed.errors import ConfigError
from trainfeed.upkeep.withdrawal import Maker, Restored, Withdrawn, restored_lines, withdrawn_lines
from trainfeed.upkeep.withdrawal import restore as give_back
from trainfeed.upkeep.withdrawal import withdraw as hide
from trainfeed.versions.accept_hole import accept_hole as accept
from trainfeed.versions.accept_hole import revoke_hole
from trainfeed.versions.layout import generation_name
from trainfeed.versions.tag import TagProposal, apply_change, propose_tag
from trainfeed.versions.tag import untag as remove_tag
from trainfeed.versions.tag_files import Decision, require_tag

if TYPE_CHECKING:
    pass


# --- ``trainfeed withdraw``: hides a generation from readers

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
        print_json(_withdrawal_lines(done, dry_run=dry_run))
    else:
        print_result(withdrawn_lines(done, dry_run=dry_run))
    if done.tag_problems:
        raise typer.Exit(_DAMAGED if any(each.is_damage for each in done.tag_problems) else 1)


def _withdrawal_lines(done: Withdrawn, *, dry_run: bool) -> dict[str, object]:
    gets = None if done.readers_get is None else generation_name(done.readers_get)
    tags = {
        "tags": list(done.tags),
        "moved_tags": list(done.moved_tags),
        "tag_problems": [each.to_json() for each in done.tag_problems],
    }
    facts = {"target": done.mark.name, "readers_get": gets, **tags}
    return {**facts, "withdrawn": asdict(done.mark), "dry_run": dry_run, "written": done.is_new}


# --- ``trainfeed restore``: gives a withdrawn generation back to readers


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
        print_json(_restoration_lines(done, dry_run=dry_run))
    else:
        print_result(restored_lines(done, dry_run=dry_run))


def _restoration_lines(done: Restored, *, dry_run: bool) -> dict[str, object]:
    gets = None if done.readers_get is None else generation_name(done.readers_get)
    facts = {"target": done.mark.name, "readers_get": gets, "withdrawn": asdict(done.mark)}
    return {**facts, "dry_run": dry_run, "written": done.is_new}


# --- ``trainfeed tag``: gives a tag, or moves it to other versions

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
        print_json(_tag_lines(name, proposal, dry_run=dry_run, is_new=is_new))
    else:
        _print_tag(name, proposal, dry_run=dry_run, is_new=is_new)


def _tag_lines(name: str, proposal: TagProposal, *, dry_run: bool, is_new: bool) -> dict[str, Any]:
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


def _print_tag(name: str, proposal: TagProposal, *, dry_run: bool, is_new: bool) -> None:
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


# --- ``trainfeed untag``: removes a tag

_OPENERS: Final = "opening it fails from then on; its versions stay until retention removes them"


def untag(
    name: Annotated[str, typer.Argument(help="The data set.", autocompletion=complete_target)],
    tag: Annotated[str, typer.Argument(help="The tag.")],
    *,
    why: Why = None,
    who: Who = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what the tag names.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Remove a tag; the versions and the history of the tag stay.

    Retention no longer keeps the versions for the tag. Status 1 when there was never such a tag.
    """
    reason = reason_or_dry_run(why, dry_run=dry_run)
    if dry_run:
        found = require_tag(known_folder(name), tag)
        _print_untagged(name, tag, found.number, as_json=as_json, is_new=False)
        if not as_json:
            text = f"{name}@{tag} names {len(found.versions)} versions of {found.range}; {_OPENERS}"
            typer.echo(printable_lines(text))
        return
    change, is_new = remove_tag(writable_folder(name), tag, Decision.now(reason, who=who))
    _print_untagged(name, tag, change.number, as_json=as_json, is_new=is_new)
    if not as_json:
        text = "is removed" if is_new else f"was removed already by {change.told}"
        typer.echo(printable_lines(f"{name}@{tag} {text}"))


def _print_untagged(name: str, tag: str, number: int, *, as_json: bool, is_new: bool) -> None:
    if as_json:
        print_json({"dataset": name, "tag": tag, "number": number, "written": is_new})


# --- ``trainfeed accept-hole``: readers go without a part between two versions, by decision


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

"""``trainfeed withdraw``, ``restore``, ``tag``, ``untag``, ``accept-hole``: people's decisions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any, Final

import typer

from trainfeed.cli.arguments import (
    Who,
    Why,
    known_folder,
    named_person,
    reason_or_dry_run,
    writable_folder,
)
from trainfeed.cli.command_groups import RANGE
from trainfeed.cli.completion import complete_range_or_tag, complete_tag
from trainfeed.cli.named_versions import VersionName, one_generation
from trainfeed.cli.printing import (
    Message,
    Part,
    Result,
    Table,
    error_console,
    first_line,
    with_dry_run,
    with_json,
)
from trainfeed.cli.targets import RangeWord, Target, name_argument, set_and_tag
from trainfeed.core.accounts import Decision, account_name
from trainfeed.core.config import environment_from_environ
from trainfeed.errors import ConfigError
from trainfeed.specification.names import cut
from trainfeed.upkeep.withdrawal import Maker, Withdrawn, restored_lines, withdrawn_lines
from trainfeed.upkeep.withdrawal import restore as give_back
from trainfeed.upkeep.withdrawal import withdraw as hide
from trainfeed.versions.accept_hole import accept_hole as accept
from trainfeed.versions.accept_hole import revoke_hole
from trainfeed.versions.layout import generation_name
from trainfeed.versions.tag import TagProposal, apply_change, propose_job_tag, propose_tag
from trainfeed.versions.tag import untag as remove_tag
from trainfeed.versions.tag_files import require_tag

# --- ``trainfeed withdraw``: hides a generation from readers

_with_check = with_dry_run("Check everything, and change nothing.")


@with_json
@_with_check
def withdraw(
    name: VersionName,
    asked: RangeWord = None,
    *,
    why: Why = None,
    who: Who = None,
    move_tags: Annotated[
        bool,
        typer.Option("--move-tags", help="Tags that name it then name what readers get."),
    ] = False,
    dry_run: bool = False,
) -> Result:
    """Hide a version; readers get the one before it.

    The generation before is verified first.
    The same content is not built again without a new reason; trainfeed restore takes it back.
    Without gNNNN, the version that readers get, unless a newer one is withdrawn already. Status 1
    when it is withdrawn already for another reason, 3 when the generation before or a tag is
    damaged; nothing is changed then. If a tag cannot be moved or read after the withdrawal, the
    message says that the version is withdrawn; status 1, or 3 for damage.
    """
    reason = reason_or_dry_run(why, dry_run=dry_run)
    target, account = Target.parse(name, asked), account_name()
    version = one_generation(target)
    maker = Maker(named_person(who), account, reason)
    with error_console().status(f"{target}: verifying what readers turn to"):
        done = hide(
            environment_from_environ(), *version, maker, move_tags=move_tags, dry_run=dry_run
        )
    status = Result.DAMAGED if any(each.is_damage for each in done.tag_problems) else Result.FAILED
    return Result(
        _withdrawal_facts(done, dry_run=dry_run),
        first_line(withdrawn_lines(done, dry_run=dry_run)),
        status=status if done.tag_problems else 0,
    )


def _withdrawal_facts(done: Withdrawn, *, dry_run: bool) -> dict[str, object]:
    gets = None if done.readers_get is None else generation_name(done.readers_get)
    tags = {
        "tags": list(done.tags),
        "moved_tags": list(done.moved_tags),
        "tag_problems": [each.to_json() for each in done.tag_problems],
    }
    facts = {"target": done.mark.name, "readers_get": gets, **tags}
    return {**facts, "withdrawn": asdict(done.mark), "dry_run": dry_run, "written": done.is_new}


# --- ``trainfeed restore``: gives a withdrawn generation back to readers


@with_json
@_with_check
def restore(
    name: VersionName,
    asked: RangeWord = None,
    *,
    why: Why = None,
    who: Who = None,
    dry_run: bool = False,
) -> Result:
    """Give a withdrawn version back to readers.

    The version is verified first.
    Without gNNNN, the newest withdrawn generation. The mark stays under another name. Status 1 when
    nothing is withdrawn or its files were removed, 3 when it is damaged.
    """
    reason = reason_or_dry_run(why, dry_run=dry_run)
    target, account = Target.parse(name, asked), account_name()
    version = one_generation(target)
    maker = Maker(named_person(who), account, reason)
    with error_console().status(f"{target}: verifying"):
        done = give_back(environment_from_environ(), *version, maker, dry_run=dry_run)
    gets = None if done.readers_get is None else generation_name(done.readers_get)
    facts = {"target": done.mark.name, "readers_get": gets, "withdrawn": asdict(done.mark)}
    return Result(
        {**facts, "dry_run": dry_run, "written": done.is_new},
        first_line(restored_lines(done, dry_run=dry_run)),
    )


# --- ``trainfeed tag``: gives a tag, or moves it to other versions

_COLUMNS: Final = ("interval", "from", "to")
# Rows of the table; --json has all of them.
_ROWS: Final = 40


@with_json
@with_dry_run("Only show which intervals would change.")
def tag(  # noqa: PLR0913 - options of a command
    name: Annotated[str, name_argument("NAME, NAME/RANGE[/gNNNN], or NAME@TAG.")],
    asked: Annotated[
        str | None,
        typer.Argument(
            metavar=RANGE,
            help="2013-01-01, 2013-01, a/b: the versions that readers get now; I/gNNNN; @TAG or"
            " @TAG#3: what a tag names, or named. Left out where it stands behind NAME.",
            autocompletion=complete_range_or_tag,
        ),
    ] = None,
    new: Annotated[
        str | None,
        typer.Argument(
            metavar="TAG",
            help="The tag, such as prod or jan-2026.",
            autocompletion=complete_tag,
        ),
    ] = None,
    *,
    job: Annotated[
        str | None,
        typer.Option(help="The versions that this training read, in place of a range: NAME TAG."),
    ] = None,
    why: Why = None,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Leave out intervals without a version.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare every file of the versions before.")
    ] = False,
    who: Who = None,
    dry_run: bool = False,
) -> Result:
    """Give versions a name that does not follow later builds.

    Or move a name to other versions; with --job, to those that a training read.
    The tag changes as a whole, or not at all; a reader that has opened it keeps its versions.
    Status 1 when an interval has no version, or another change came between.
    """
    words = [word for word in (name, asked, new) if word is not None]
    name, named, tag_name = _tagged_versions(words) if job is None else _tag_of_job(words)
    reason = reason_or_dry_run(why, dry_run=dry_run)
    folder = known_folder(name) if dry_run else writable_folder(name)
    decision = Decision.now(reason, who=who)
    with error_console().status(f"{name}@{tag_name}"):
        if job is not None:
            proposal = propose_job_tag(folder, job, tag_name, decision, verify=verify)
        else:
            proposal = propose_tag(
                folder, named, tag_name, decision, allow_missing=allow_missing, verify=verify
            )
    is_new = False if dry_run else apply_change(folder, proposal)[1]
    return Result(
        _tag_facts(name, proposal, dry_run=dry_run, is_new=is_new),
        _tag_text(name, proposal, dry_run=dry_run, is_new=is_new),
    )


def _tag_of_job(words: list[str]) -> tuple[str, str, str]:
    if len(words) != 2 or set("/@") & set(words[0]):
        raise ConfigError(
            f"expected NAME TAG beside --job, got {cut(' '.join(words))!r}: the job says which"
            " versions; nothing was changed"
        )
    return words[0], "", words[1]


def _tagged_versions(words: list[str]) -> tuple[str, str, str]:
    """Return the data set, what the tag is to name, as ``propose_tag`` takes it, and the tag.

    Raises:
        ConfigError: The tag is missing, or the versions are named twice or not at all.
    """
    *words, tag = words
    if len(words) == 2 and words[1].startswith("@"):
        words = ["".join(words)]
    target = Target.parse(*words) if words else Target("")
    is_other = target.tag is not None and target.asked is None
    if not is_other and (target.tag is not None or target.asked is None):
        raise ConfigError(
            "expected NAME RANGE TAG, NAME/RANGE TAG, or NAME@TAG NEW for what another tag names,"
            f" got {cut(' '.join([*words, tag]))!r}; nothing was changed"
        )
    named = f"@{target.tag}" if is_other else str(target).partition("/")[2]
    return target.name, named, tag


def _tag_facts(name: str, proposal: TagProposal, *, dry_run: bool, is_new: bool) -> dict[str, Any]:
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


def _tag_text(name: str, proposal: TagProposal, *, dry_run: bool, is_new: bool) -> Iterator[Part]:
    after, changes = proposal.after, proposal.changes
    if changes:
        shown = [change.to_json() for change in changes[:_ROWS]]
        yield Table(_COLUMNS, [[row[each] or "-" for each in _COLUMNS] for row in shown])
    if len(changes) > _ROWS:
        yield Message(f"… and {len(changes) - _ROWS} more; --json has all of them")
    for skip in after.left_out:
        is_hole = dry_run and skip.interval in after.missing
        why = "it would be left out" if is_hole else skip.why
        yield Message(f"{skip.interval} has no version in it: {why}")
    for hole in after.accepted:
        yield Message(f"{hole.range} is in no version, {hole.told}")
    count = f"{len(after.versions)} versions of {after.range}, {len(changes)} of them changed"
    if is_new:
        yield f"{name}@{after.tag} is change {after.number}: {count}"
    elif not proposal.is_change and proposal.before is not None:
        yield f"{name}@{after.tag} names these versions already; nothing was changed"
    else:
        yield f"{name}@{after.tag} would become change {after.number}: {count}"


# --- ``trainfeed untag``: removes a tag

_OPENERS: Final = "opening it fails from then on; its versions stay until retention removes them"


@with_json
@with_dry_run("Only show what the tag names.")
def untag(
    name: Annotated[str, name_argument("NAME, or NAME@TAG.")],
    tag: Annotated[str | None, typer.Argument(help="The tag.", autocompletion=complete_tag)] = None,
    *,
    why: Why = None,
    who: Who = None,
    dry_run: bool = False,
) -> Result:
    """Remove a tag; its versions stay.

    The history of the tag stays, too.
    Retention no longer keeps the versions for the tag. Status 1 when there was never such a tag.
    """
    name, tag = set_and_tag(name, tag)
    if tag is None:
        raise ConfigError(f"expected NAME TAG or NAME@TAG, got {name!r}; nothing was changed")
    reason = reason_or_dry_run(why, dry_run=dry_run)
    if dry_run:
        found = require_tag(known_folder(name), tag)
        number, is_new = found.number, False
        text = f"names {len(found.versions)} versions of {found.range}; {_OPENERS}"
    else:
        change, is_new = remove_tag(writable_folder(name), tag, Decision.now(reason, who=who))
        number = change.number
        text = "is removed" if is_new else f"was removed already by {change.told}"
    facts = {"dataset": name, "tag": tag, "number": number, "written": is_new}
    return Result(facts, f"{name}@{tag} {text}")


# --- ``trainfeed accept-hole``: readers go without a part between two versions, by decision


@with_json
@_with_check
def accept_hole(
    name: Annotated[str, name_argument("NAME/RANGE, as messages name it.")],
    asked: RangeWord = None,
    *,
    why: Why = None,
    who: Who = None,
    revoke: Annotated[bool, typer.Option("--revoke", help="Take the acceptance back.")] = False,
    dry_run: bool = False,
) -> Result:
    """Accept a hole between versions that no interval fills.

    Readers go without this part then.
    A moved time of day leaves such a hole. Readers of a range with it list it with who and why.
    Status 1 when it is no hole, or when an interval of the schedule fits: build that one.
    """
    reason = reason_or_dry_run(why, dry_run=dry_run)
    target = Target.parse(name, asked).to_change().of_intervals()
    if target.asked is None:
        raise ConfigError(f"expected NAME/RANGE, got {name!r}; nothing was changed")
    name = target.name
    folder = known_folder(name) if dry_run else writable_folder(name)
    decide = revoke_hole if revoke else accept
    hole, is_changed = decide(folder, target.asked, Decision.now(reason, who=who), dry_run=dry_run)
    text: list[Part]
    if dry_run:
        state = "would be missing again" if revoke else "would be accepted"
        text = [f"{name}/{hole.range} {state}; nothing was changed"]
    elif revoke:
        text = [f"{name}/{hole.range} is missing again; it was {hole.told}"]
    else:
        back = f"to take it back: trainfeed accept-hole {target} --revoke --why WHY"
        text = [f"{name}/{hole.range} is {hole.told}", Message(back)]
    return Result({"hole": hole.to_json(), "dry_run": dry_run, "written": is_changed}, text)

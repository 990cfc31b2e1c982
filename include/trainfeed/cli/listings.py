"""``trainfeed tags``, ``history`` and ``leases``: what is noted of a data set; nothing heavy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from trainfeed.cli.arguments import known_folder, readable_environment
from trainfeed.cli.completion import complete_tag
from trainfeed.cli.printing import (
    DamagedEntries,
    Message,
    Part,
    Result,
    Table,
    first_to_last,
    table,
    with_json,
)
from trainfeed.cli.targets import SetName, Target, name_argument, set_and_tag
from trainfeed.core.intervals import parse_time
from trainfeed.core.version_names import split_version_name
from trainfeed.errors import ConfigError, FormatError
from trainfeed.versions import DatasetFolder
from trainfeed.versions.history import Action, DamagedAction, actions, missing_marks
from trainfeed.versions.layout import generation_name
from trainfeed.versions.lease import FoundLease, leases
from trainfeed.versions.root import data_sets_of
from trainfeed.versions.tag_files import Tag, listed_tag, require_tag, tag_history, tag_names

# --- ``trainfeed tags``: the tags of a data set, what one names, and its history

_TAG_COLUMNS: Final = ("tag", "change", "range", "versions", "left out", "who", "at", "why")
_VERSIONS: Final = ("interval", "generation")


@with_json
def tags(
    name: Annotated[str, name_argument("NAME, or NAME@TAG.")],
    tag: Annotated[
        str | None,
        typer.Argument(
            help="A tag, or TAG#3 as its third change made it.", autocompletion=complete_tag
        ),
    ] = None,
    *,
    history: Annotated[
        bool, typer.Option("--history", help="All changes, the oldest first.")
    ] = False,
) -> Result:
    """List the tags of a data set, or show one.

    Of one: which versions it names, or named.

    Status 3 when a tag is damaged; the others are listed all the same. Aliases of models are
    another namespace: trainfeed models.
    """
    name, tag = set_and_tag(name, tag)
    folder, damaged = known_folder(name), DamagedEntries()
    if tag is not None and not history:
        return _one_tag(folder, tag)
    found, unread = _found(folder, tag, damaged, history=history)
    nothing = f"{name} has no tag; give one: trainfeed tag {name} RANGE TAG --why WHY"
    rows = list(map(_tag_row, found))
    text = () if unread and not rows else table(_TAG_COLUMNS, rows, nothing)
    return Result([*map(_tag_facts, found), *unread], text, status=damaged.status)


def _found(
    folder: DatasetFolder, tag: str | None, damaged: DamagedEntries, *, history: bool
) -> tuple[list[Tag], list[dict[str, Any]]]:
    """Return the changes to show, and an entry for each tag or change that cannot be read."""
    found: list[Tag] = []
    unread: list[dict[str, Any]] = []
    if tag is not None and not tag_history(folder, tag, lambda *_: None):
        require_tag(folder, tag)
    for each in tag_names(folder) if tag is None else [tag]:
        entry: dict[str, Any] = {"tag": each}
        with damaged.named(f"{folder.name}@{each}", entry):
            if history:
                found += _history(folder, each, damaged, unread)
            else:
                found += _given(listed_tag(folder, each))
        if "damaged" in entry:
            unread.append(entry)
    return found, unread


def _history(
    folder: DatasetFolder, tag: str, damaged: DamagedEntries, unread: list[dict[str, Any]]
) -> list[Tag]:
    """Return the changes of a tag, and add an entry for each that cannot be read."""

    def note(number: int, error: FormatError) -> None:
        entry: dict[str, Any] = {"tag": tag, "number": number}
        unread.append(entry)
        with damaged.named(f"{folder.name}@{tag}#{number}", entry):
            raise error

    try:
        return tag_history(folder, tag, note)
    except ConfigError:
        listed_tag(folder, tag)  # says what to do about a name that no tag can have
        raise


def _given(found: Tag | None) -> Sequence[Tag]:
    return [] if found is None or found.kind == "untag" else [found]


def _one_tag(folder: DatasetFolder, name: str) -> Result:
    named = split_version_name(f"{folder.name}@{name}")
    found = require_tag(folder, named.version or "", named.change)
    generations = _generations(found)
    text: list[Part] = [
        Table(_TAG_COLUMNS, [_tag_row(found)]),
        Table(_VERSIONS, list(generations.items())),
    ]
    text += [
        Message(f"{each.interval} has no version in it: {each.why}") for each in found.left_out
    ]
    text += [Message(f"{each.range} is in no version, {each.told}") for each in found.accepted]
    return Result({**_tag_facts(found), "generations": generations}, text)


def _generations(tag: Tag) -> dict[str, str]:
    return {name: generation_name(number) for name, number in tag.generations.items()}


def _tag_facts(tag: Tag) -> dict[str, Any]:
    made = tag.decision
    return {
        "tag": tag.tag,
        "number": tag.number,
        "kind": tag.kind,
        "range": tag.range,
        "versions": len(tag.versions),
        "left_out": [skip.interval for skip in tag.left_out],
        "accepted": [hole.range for hole in tag.accepted],
        "who": made.who,
        "account": made.account,
        "at": made.at,
        "why": made.why,
    }


def _tag_row(tag: Tag) -> list[object]:
    made = tag.decision
    count = "removed" if tag.kind == "untag" else len(tag.versions)
    who = made.by
    return [tag.tag, tag.number, tag.range, count, len(tag.left_out), who, made.at, made.why]


# --- ``trainfeed history``: what people and upkeep changed in a data set

_ACTION_COLUMNS: Final = ("at", "action", "target", "who", "why")


@with_json
def history(
    name: SetName,
    *,
    action: Annotated[
        str | None, typer.Option(help="Only this one: withdraw, restore, tag, repair, prune, ….")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Only from this time, UTC, as 2026-03-08.")
    ] = None,
) -> Result:
    """Show who changed what in a data set, and why.

    Changes by people and by upkeep, the oldest first.

    An action whose mark is not there is told: it was killed, or the mark was lost. Status 3 when a
    file of the history is damaged.
    """
    folder = known_folder(Target.parse(name).of_whole_set())
    found = list(actions(folder))
    damaged = [each for each in found if isinstance(each, DamagedAction)]
    chosen = _chosen((each for each in found if isinstance(each, Action)), action, since)
    unread = [{"path": str(each.path), "damaged": each.why} for each in damaged]
    rows = [_action_row(each) for each in chosen]
    return Result(
        [*(each.to_json() for each in chosen), *unread],
        Table(_ACTION_COLUMNS, rows) if rows else f"{folder.name}: no such action",
        [
            *(f"{each.path} is damaged: {each.why}" for each in damaged),
            *(missing.told for missing in missing_marks(folder, found)),
        ],
        Result.DAMAGED if damaged else 0,
    )


def _chosen(found: Iterable[Action], action: str | None, since: str | None) -> list[Action]:
    begin = None if since is None else parse_time(since)
    return [
        each
        for each in found
        if (action is None or each.action == action)
        and (begin is None or parse_time(each.at) >= begin)
    ]


def _action_row(each: Action) -> list[object]:
    return [each.at, each.action, each.told_target, each.by, each.why]


# --- ``trainfeed leases``: who reads or builds versions of data sets now, and until when

_LEASE_COLUMNS: Final = (
    "data set",
    "state",
    "versions",
    "what",
    "account",
    "host",
    "process",
    "until",
)


@with_json
def show_leases(
    name: Annotated[str | None, name_argument("The data set; by default all data sets.")] = None,
) -> Result:
    """Show who reads or builds versions now.

    Retention keeps these versions until the time that is shown.

    A lease that its process renews no more is listed as ended, until upkeep removes it. Status 3
    when a lease cannot be read; until its time has passed it keeps every version.
    """
    now = datetime.now(UTC)
    root = Path(readable_environment().root)
    asked = None if name is None else known_folder(Target.parse(name).of_whole_set()).name
    names = data_sets_of(root) if asked is None else [asked]
    found = [(each, lease) for each in names for lease in leases(DatasetFolder(root, each))]
    unread = [lease.problem for _, lease in found if lease.lease is None]
    rows = [_lease_row(each, lease, now) for each, lease in found]
    return Result(
        [
            {"dataset": each, "state": _state(lease, now), **lease.to_json()}
            for each, lease in found
        ],
        table(_LEASE_COLUMNS, rows, "no lease was found"),
        unread,
        Result.DAMAGED if unread else 0,
    )


def _state(found: FoundLease, now: datetime) -> str:
    if not found.is_held(now):
        return "ended"
    if found.is_ahead(now):
        return "clock ahead"
    return str(found.lease.kind) if found.lease else "unread"


def _lease_row(name: str, found: FoundLease, now: datetime) -> list[object]:
    state, until = _state(found, now), f"{found.until:%Y-%m-%dT%H:%M:%SZ}"
    if (lease := found.lease) is None:
        return [name, state, "all", found.path.name, "", "", "", until]
    return [
        name, state, _versions(lease.versions), lease.what, lease.account, lease.host, lease.pid,
        until,
    ]  # fmt: skip


def _versions(versions: tuple[tuple[str, int], ...]) -> str:
    ends = (versions[0], versions[-1])
    first, last = (f"{name}/{generation_name(number)}" for name, number in ends)
    more = f" ({len(versions)})" if len(versions) > 1 else ""
    return f"{first_to_last(first, last)}{more}"

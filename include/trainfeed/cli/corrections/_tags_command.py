"""``trainfeed tags``: the tags of a data set, what one names, and its history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer

from trainfeed.accounts import person
from trainfeed.cli._damaged_entries import DamagedEntries
from trainfeed.cli._known_datasets import complete_target, known_folder
from trainfeed.cli._printing import print_json, print_message, print_rows
from trainfeed.dataset import DatasetFolder
from trainfeed.dataset.layout import generation_name
from trainfeed.dataset.tag_files import Tag, listed_tag, require_tag, tag_history, tag_names
from trainfeed.errors import ConfigError, FormatError
from trainfeed.version_names import split_version_name

__all__ = ["tags"]

_COLUMNS: Final = ("tag", "change", "range", "versions", "left out", "who", "at", "why")
_VERSIONS: Final = ("interval", "generation")


def tags(
    name: Annotated[str, typer.Argument(help="The data set.", autocompletion=complete_target)],
    tag: Annotated[
        str | None, typer.Argument(help="A tag, or TAG#3 as its third change made it.")
    ] = None,
    *,
    history: Annotated[
        bool, typer.Option("--history", help="All changes, the oldest first.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the tags of a data set, or show what one names, or named.

    Status 3 when a tag is damaged; the others are listed all the same. Aliases of models are
    another namespace: trainfeed models.
    """
    folder, damaged = known_folder(name), DamagedEntries()
    if tag is not None and not history:
        _show(folder, tag, as_json=as_json)
        return
    found, unread = _found(folder, tag, damaged, history=history)
    if as_json:
        print_json([*map(_told, found), *unread])
    elif found:
        print_rows(_COLUMNS, list(map(_row, found)))
    elif not unread:
        print_message(f"{name} has no tag; give one: trainfeed tag {name} RANGE TAG --why WHY")
    damaged.end()


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


def _show(folder: DatasetFolder, text: str, *, as_json: bool) -> None:
    named = split_version_name(f"{folder.name}@{text}")
    found = require_tag(folder, named.version or "", named.change)
    if as_json:
        print_json({**_told(found), "generations": _generations(found)})
        return
    print_rows(_COLUMNS, [_row(found)])
    print_rows(_VERSIONS, list(_generations(found).items()))
    for skip in found.left_out:
        print_message(f"{skip.interval} has no version in it: {skip.why}")
    for hole in found.accepted:
        print_message(f"{hole.range} is in no version, {hole.told}")


def _generations(tag: Tag) -> dict[str, str]:
    return {name: generation_name(number) for name, number in tag.generations.items()}


def _told(tag: Tag) -> dict[str, Any]:
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


def _row(tag: Tag) -> list[object]:
    made = tag.decision
    count = "removed" if tag.kind == "untag" else len(tag.versions)
    who = person(made.who, made.account)
    return [tag.tag, tag.number, tag.range, count, len(tag.left_out), who, made.at, made.why]

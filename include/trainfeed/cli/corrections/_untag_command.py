"""``trainfeed untag``: removes a tag."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from trainfeed.cli._decision_options import Who, Why, reason_or_dry_run
from trainfeed.cli._known_datasets import complete_target, known_folder
from trainfeed.cli._printing import print_json, printable_lines
from trainfeed.cli.corrections._writable import writable_folder
from trainfeed.dataset.tag import untag as remove_tag
from trainfeed.dataset.tag_files import Decision, require_tag

__all__ = ["untag"]

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
        _print(name, tag, found.number, as_json=as_json, is_new=False)
        if not as_json:
            text = f"{name}@{tag} names {len(found.versions)} versions of {found.range}; {_OPENERS}"
            typer.echo(printable_lines(text))
        return
    change, is_new = remove_tag(writable_folder(name), tag, Decision.now(reason, who=who))
    _print(name, tag, change.number, as_json=as_json, is_new=is_new)
    if not as_json:
        text = "is removed" if is_new else f"was removed already by {change.told}"
        typer.echo(printable_lines(f"{name}@{tag} {text}"))


def _print(name: str, tag: str, number: int, *, as_json: bool, is_new: bool) -> None:
    if as_json:
        print_json({"dataset": name, "tag": tag, "number": number, "written": is_new})

"""Changes of tags: what a tag would name is computed first, and shown or written as it is.

Number and content of a change are fixed by the proposal. So what a person saw is what is written,
or, if another change came between, nothing is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from trainfeed import faults
from trainfeed.dataset.history import Action, record_action
from trainfeed.dataset.layout import DatasetFolder, generation_name
from trainfeed.dataset.tags._tag import Decision, Tag, TaggedVersion
from trainfeed.dataset.tags._tag_files import (
    change_of_request,
    confirm_changes,
    current_tag,
    require_tag,
    write_change,
)
from trainfeed.dataset.tags._tag_state import require_there, tagged
from trainfeed.dataset.version import Version
from trainfeed.errors import ConflictError

__all__ = ["TagChange", "TagProposal", "apply_change", "move_tag", "untag"]

# Changes that the history of the data set lists one by one; the file of the tag has all of them.
_LISTED: Final = 100

Tell = Callable[[int, int], None]


@dataclass(frozen=True)
class TagChange:
    """An interval that a change gives another meaning.

    Attributes:
        interval: Name of the interval.
        before: Its generation in the tag before; None if it was not in it.
        after: Its generation afterwards, likewise.
    """

    interval: str
    before: int | None
    after: int | None

    def to_json(self) -> dict[str, str | None]:
        """Return interval, ``from`` and ``to``, with generations as ``g0001``."""
        return {"interval": self.interval, "from": _named(self.before), "to": _named(self.after)}


@dataclass(frozen=True)
class TagProposal:
    """What a tag is, and what it would be.

    Attributes:
        before: The newest change; None if there was never a tag of this name.
        after: The change that would be written.
    """

    before: Tag | None
    after: Tag

    @property
    def is_change(self) -> bool:
        """Whether the tag would get another meaning."""
        return self.before is None or not self.after.names_the_same(self.before)

    @property
    def changes(self) -> list[TagChange]:
        """The intervals whose generation in the tag changes, in order."""
        before = {} if self.before is None else self.before.generations
        after = self.after.generations
        return [
            TagChange(name, before.get(name), after.get(name))
            for name in sorted({*before, *after})
            if before.get(name) != after.get(name)
        ]


def apply_change(folder: DatasetFolder, proposal: TagProposal) -> tuple[Tag, bool]:
    """Write a proposed change, with a line in the history of the data set before it.

    Returns:
        The change that holds, and whether this call wrote it. A proposal that changes nothing, and
        a request that is in the history of the tag already, are not written.

    Raises:
        ConflictError: The tag was changed after the proposal was made; nothing was written. Or a
            version was withdrawn or removed at the same time: the tag is written and names it, and
            the message says so.
        FormatError: A file of the tag is damaged; nothing was written.
        StorageError: The publication root refused or failed.
    """
    tag = proposal.after
    confirm_changes(folder, tag.tag)
    if (earlier := _requested(folder, tag)) is not None:
        return earlier, False
    if not proposal.is_change and proposal.before is not None:
        return proposal.before, False
    record_action(folder, _action(folder, proposal))
    write_change(folder, tag)
    _require_all_there(folder, tag)
    faults.point("tags.after_look")
    return tag, True


def untag(folder: DatasetFolder, tag: str, decision: Decision) -> tuple[Tag, bool]:
    """Remove a tag; its history stays, and its numbers are not used again.

    Returns:
        The change that removes the tag, and whether this call wrote it; a tag that was removed
        already is left as it is.

    Raises:
        NotFoundError: There was never such a tag.
        ConflictError: The tag was changed at the same time; nothing was written.
        FormatError: The file of the tag is damaged; nothing was written.
        StorageError: The publication root refused or failed.
    """
    before = current_tag(folder, tag) or require_tag(folder, tag)
    if before.kind == "untag":
        confirm_changes(folder, tag)
        return before, False
    after = replace(
        before,
        number=before.number + 1,
        kind="untag",
        versions=(),
        skipped=(),
        missing=(),
        accepted=(),
        decision=decision,
    )
    return apply_change(folder, TagProposal(before, after))


def move_tag(
    folder: DatasetFolder,
    tag: str,
    generations: Mapping[str, int | None],
    decision: Decision,
    *,
    instead_of: int | None = None,
) -> tuple[Tag, bool]:
    """Replace single versions of a tag.

    Args:
        folder: The data set.
        tag: Name of the tag.
        generations: Name of each interval to change → its generation from now on; None leaves the
            interval out of the tag.
        decision: Who changes the tag, and why.
        instead_of: The generation that the tag must name in all these intervals now; None for any.

    Returns:
        The change that holds, and whether this call wrote it.

    Raises:
        NotFoundError: There is no such tag, or no such version.
        ConflictError: The tag was changed at the same time, or names none of the intervals, or
            other generations; nothing was written.
        FormatError: The file of the tag, or a manifest, is damaged; nothing was written.
        StorageError: The publication root refused or failed.
    """
    before = require_tag(folder, tag)
    there = [name for name, number in before.generations.items() if instead_of in {None, number}]
    if strange := sorted(set(generations) - set(there)):
        named = "" if instead_of is None else f"/{generation_name(instead_of)}"
        raise ConflictError(
            f"tag {folder.name}@{tag} does not name {', '.join(strange[:5])}{named}; the tag was"
            f" not changed; look at it: trainfeed tags {folder.name} {tag}"
        )
    versions = tuple(_moved(folder, before, generations))
    gone = {name for name, generation in generations.items() if generation is None}
    missing = tuple(sorted({*before.missing, *gone}))
    after = replace(
        before, number=before.number + 1, versions=versions, missing=missing, decision=decision
    )
    return apply_change(folder, TagProposal(before, after))


def _moved(
    folder: DatasetFolder, before: Tag, generations: Mapping[str, int | None]
) -> list[TaggedVersion]:
    versions = []
    for version in before.versions:
        number = generations.get(version.interval, version.generation)
        if number == version.generation:
            versions.append(version)
        elif number is not None:
            require_there(folder, version.interval, number)
            versions.append(tagged(Version.resolve(folder, version.interval, number)))
    return versions


def _requested(folder: DatasetFolder, tag: Tag) -> Tag | None:
    """Return the change that an earlier attempt at the same request has made."""
    request = tag.decision.request
    if request is None:
        return None
    return change_of_request(folder, tag.tag, request)


def _require_all_there(folder: DatasetFolder, tag: Tag) -> None:
    """Look at the versions again: a withdrawal or removal looks for tags after its mark.

    So of two that meet, at least one sees the other.
    """
    for version in tag.versions:
        try:
            require_there(folder, version.interval, version.generation)
        except ConflictError as error:
            raise ConflictError(
                f"tag {folder.name}@{tag.tag} was written and names {version.name}, and meanwhile:"
                f" {error}; opening the tag fails until it is given again: trainfeed tag"
                f" {folder.name} {tag.range} {tag.tag} --why WHY"
            ) from error


def _action(folder: DatasetFolder, proposal: TagProposal) -> Action:
    tag, changes = proposal.after, proposal.changes
    details: dict[str, Any] = {
        "number": tag.number,
        "range": tag.range,
        "versions": len(tag.versions),
        "changed": len(changes),
        "changes": [change.to_json() for change in changes[:_LISTED]],
    }
    target = f"{folder.name}@{tag.tag}"
    return Action.now(tag.kind, target, why=tag.decision.why, who=tag.decision.who, details=details)


def _named(generation: int | None) -> str | None:
    return None if generation is None else generation_name(generation)

"""Tags: which versions a tag should name, its moves, and the data that it names, opened.

Of two changes at once, ``tag_files.write_change`` lets one through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from trainfeed.core import faults
from trainfeed.core.accounts import Decision
from trainfeed.core.intervals import TimeRange, parse_range
from trainfeed.core.version_names import check_version_name, split_version_name
from trainfeed.errors import (
    ChecksumError,
    ConflictError,
    NotFoundError,
    WindowError,
    WindowIncompleteError,
)
from trainfeed.versions.coverage import Coverage, cover, cover_named, start_of
from trainfeed.versions.history import Action, record_action
from trainfeed.versions.job_versions import cover_job
from trainfeed.versions.layout import (
    DatasetFolder,
    check_name,
    generation_name,
    is_generation,
    parse_generation,
)
from trainfeed.versions.schedule import range_of
from trainfeed.versions.state_folder import deciding
from trainfeed.versions.tag_files import (
    Tag,
    TaggedVersion,
    change_of_request,
    confirm_changes,
    current_tag,
    last_change,
    require_tag,
    write_change,
)
from trainfeed.versions.version import Version
from trainfeed.versions.withdraw import withdrawal_of

# --- Whether a version that a tag names, or should name, is there for readers


def tagged(version: Version) -> TaggedVersion:
    """Return the entry of a tag for an open version."""
    return TaggedVersion(
        version.path.parent.name,
        version.manifest.generation,
        version.manifest_sha256,
        version.manifest.fingerprint,
    )


def require_there(folder: DatasetFolder, interval: str, generation: int) -> None:
    """Refuse a version that is withdrawn, removed, or was never published.

    Raises:
        ConflictError: It is; the message says which of these.
        StorageError: The publication root refused or failed.
    """
    if generation in folder.generations(interval):
        return
    name = f"{folder.name}/{interval}/{generation_name(generation)}"
    if folder.is_removed(interval, generation):
        raise ConflictError(f"{name} was removed by retention")
    if (mark := withdrawal_of(folder, interval, generation)) is not None:
        raise ConflictError(f"{mark.told}; to take that back: trainfeed restore {name} --why WHY")
    raise ConflictError(f"{name} was never published")


# --- The versions of a tag, opened: exactly those that it names, or an error


class TaggedData:
    """A data set, or a tag of it, as commands and readers name it.

    The name is resolved once: what a reader has opened does not follow the tag.

    Attributes:
        folder: The data set.
        tag: The tag as it was when the name was resolved; None for the data set itself.
    """

    def __init__(
        self,
        root: str | Path,
        name: str,
        *,
        folder_of: Callable[[Path, str], DatasetFolder] = DatasetFolder,
    ) -> None:
        """Resolve ``NAME``, ``NAME@TAG`` or ``NAME@TAG#3``.

        Args:
            root: The publication root.
            name: The data set, or a tag of it.
            folder_of: Returns the folder of a data set in the root; another one for a root at a
                store.

        Raises:
            ConfigError: ``name`` has another form.
            NotFoundError: There is no such tag or change, or the tag was removed.
            FormatError: The file of the tag is damaged.
            StorageError: The publication root refused or failed.
        """
        named = split_version_name(name)
        self.folder = folder_of(Path(root), check_name(named.name))
        self.tag = (
            None if named.version is None else require_tag(self.folder, named.version, named.change)
        )

    def cover(self, asked: str | None) -> Coverage:
        """Return the state of a range, in the versions of the tag if there is one.

        Args:
            asked: A range in the forms of ``parse_range``; None for all of the tag.

        Raises:
            WindowError: ``asked`` is no range, it is None without a tag, or the schedule has no
                interval there.
            NotFoundError: The tag names nothing in the range.
            ConflictError: A version of the tag is withdrawn or removed.
            ChecksumError: Another version is in the place of one that was tagged.
            FormatError: A manifest is damaged.
            StorageError: The publication root refused or failed.
        """
        if self.tag is not None:
            return cover_tag(self.folder, self.tag, asked)
        if asked is None:
            raise WindowError(
                f"expected an interval or a range of {self.folder.name!r}, or a tag of it"
                f" ({self.folder.name}@TAG); for its tags: trainfeed tags {self.folder.name}"
            )
        return cover(self.folder, asked)


def cover_tag(folder: DatasetFolder, tag: Tag, asked: str | None = None) -> Coverage:
    """Open the versions of a tag.

    Args:
        folder: The data set.
        tag: The tag.
        asked: A range of it, in the forms of ``parse_range``; None for all of it.

    Returns:
        The versions; intervals that the tag leaves out are in ``skipped``, with its reason.

    Raises:
        WindowError: ``asked`` is no range.
        NotFoundError: The tag names nothing in the range, or a part of the range is not tagged.
        ConflictError: A version is withdrawn or removed.
        ChecksumError: Another version is in the place of one that was tagged.
        FormatError: A manifest is damaged.
        StorageError: The publication root refused or failed.
    """
    if asked is None or asked == tag.range:
        versions = [_opened(folder, tag, each) for each in tag.versions]
        return Coverage(folder, tag.range, tuple(versions), (), tag.left_out, accepted=tag.accepted)
    span = range_of(folder, asked)
    _require_inside(folder, tag, span)
    return _part(folder, tag, span)


def _part(folder: DatasetFolder, tag: Tag, span: TimeRange) -> Coverage:
    exact = [each for each in tag.versions if each.interval == span.text]
    near = exact or [each for each in tag.versions if _may_start_in(each.interval, span)]
    versions = [_opened(folder, tag, each) for each in near]
    inside = [each for each in versions if exact or start_of(each) in span]
    skipped = tuple(each for each in tag.left_out if parse_range(each.interval).start in span)
    accepted = tuple(
        each for each in tag.accepted if each.span[0] < span.end and span.start < each.span[1]
    )
    if not inside and not skipped:
        raise _nothing(folder, tag, span)
    return Coverage(folder, span.text, tuple(inside), (), skipped, accepted=accepted)


def _opened(folder: DatasetFolder, tag: Tag, entry: TaggedVersion) -> Version:
    try:
        require_there(folder, entry.interval, entry.generation)
    except ConflictError as error:
        raise ConflictError(
            f"tag {folder.name}@{tag.name} names {entry.name}: {error}; nothing was read; or give"
            f" the tag the versions of now: trainfeed tag {folder.name} {tag.range} {tag.tag} --why"
            f" WHY; or see what it named: trainfeed tags {folder.name} {tag.tag} --history"
        ) from error
    version = Version.resolve(folder, entry.interval, entry.generation)
    if version.manifest_sha256 != entry.manifest_sha256:
        raise ChecksumError(
            f"expected the manifest that was tagged {tag.name}, with SHA-256"
            f" {entry.manifest_sha256}, got {version.manifest_sha256}; nothing was read; bring the"
            " version back from a backup, or tag again",
            path=str(version.path),
        )
    return version


def _require_inside(folder: DatasetFolder, tag: Tag, span: TimeRange) -> None:
    whole = parse_range(tag.range)
    if span.start < whole.start or whole.end < span.end:
        raise _nothing(folder, tag, span)


def _nothing(folder: DatasetFolder, tag: Tag, span: TimeRange) -> NotFoundError:
    return NotFoundError(
        f"tag {folder.name}@{tag.name} is of {tag.range} and does not name {span.text}; nothing was"
        f" read; ask for a part of {tag.range}, or tag a longer range: trainfeed tag {folder.name}"
        f" RANGE {tag.tag} --why WHY"
    )


def _may_start_in(name: str, span: TimeRange) -> bool:
    """Return whether an interval of that name may start in ``span``: names may be cut."""
    named = parse_range(name)
    return named.start < span.end and span.start < named.end


# --- Changes of tags: what a tag would name is computed first, and shown or written as it is

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


@deciding("tag")
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


@deciding("untag")
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


@deciding("tag")
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


# --- Which versions a tag would name: those of a range that readers get now, one, or another tag's

_SHOWN: Final = 10


def propose_tag(
    folder: DatasetFolder,
    asked: str,
    tag: str,
    decision: Decision,
    *,
    allow_missing: bool = False,
    verify: bool = False,
) -> TagProposal:
    """Return what a tag would name; nothing is written.

    Args:
        folder: The data set.
        asked: A range in the forms of ``parse_range``: the versions that readers get now;
            ``INTERVAL/gNNNN``: one version; ``@TAG`` or ``@TAG#3``: what a tag names, or named.
        tag: Name of the tag.
        decision: Who changes the tag, and why.
        allow_missing: Whether intervals of the range may be without a version.
        verify: Whether every file of the versions is compared with its manifest; otherwise only
            manifests are read.

    Raises:
        ConfigError: No tag may have that name.
        WindowError: ``asked`` is no range, or the schedule has no interval there.
        WindowIncompleteError: Intervals are missing, and ``allow_missing`` is false.
        NotFoundError: Nothing of the range is published, or there is no such tag or change.
        ConflictError: A version is withdrawn or removed.
        FormatError: A manifest, a file or a change of a tag is damaged.
        StorageError: The publication root refused or failed.
    """
    check_version_name(tag, what="tag")
    last, before = last_change(folder, tag)
    after = _proposed(folder, asked, tag, decision, allow_missing=allow_missing, verify=verify)
    return TagProposal(before, replace(after, number=last + 1))


def propose_job_tag(
    folder: DatasetFolder, job: str, tag: str, decision: Decision, *, verify: bool = False
) -> TagProposal:
    """Return what a tag of the versions that a training read would name; nothing is written.

    Args:
        folder: The data set.
        job: Name of the job.
        tag: Name of the tag.
        decision: Who changes the tag, and why.
        verify: As of ``propose_tag``.

    Raises:
        ConfigError: No tag may have that name.
        NotFoundError: The data set has no such job.
        ConflictError: A version is withdrawn or removed.
        FormatError: The job file, a manifest, a file or a change of a tag is damaged.
        StorageError: The publication root refused or failed.
    """
    check_version_name(tag, what="tag")
    last, before = last_change(folder, tag)
    found = cover_job(folder, job)
    after = _naming(found, tag, decision, verify=verify)
    return TagProposal(before, replace(after, number=last + 1))


def _proposed(
    folder: DatasetFolder,
    asked: str,
    tag: str,
    decision: Decision,
    *,
    allow_missing: bool,
    verify: bool,
) -> Tag:
    other = _other(folder, asked)
    found = _covered(folder, asked) if other is None else cover_tag(folder, other)
    _require(found, tag, allow_missing=allow_missing)
    after = _naming(found, tag, decision, verify=verify)
    if other is None:
        return after
    return replace(
        after,
        range=other.range,
        skipped=other.skipped,
        missing=other.missing,
        accepted=other.accepted,
    )


def _naming(found: Coverage, tag: str, decision: Decision, *, verify: bool) -> Tag:
    """Return the first change of a tag of these versions."""
    if verify:
        for version in found.versions:
            version.verify()
    versions = tuple(map(tagged, found.versions))
    return Tag(
        tag,
        1,
        "tag",
        found.asked,
        versions,
        found.skipped,
        found.missing,
        decision,
        found.accepted,
    )


def _other(folder: DatasetFolder, asked: str) -> Tag | None:
    if not asked.startswith("@"):
        return None
    named = split_version_name(f"{folder.name}{asked}")
    return require_tag(folder, named.version or "", named.change)


def _covered(folder: DatasetFolder, asked: str) -> Coverage:
    interval, _, last = asked.rpartition("/")
    if not interval or not is_generation(last):
        return cover(folder, asked)
    parse_range(interval)
    generation = parse_generation(last)
    require_there(folder, interval, generation)
    return cover_named(folder, [interval], generation_of=lambda _: generation)


def _require(found: Coverage, tag: str, *, allow_missing: bool) -> None:
    if not found.missing or allow_missing:
        found.require("skip")
        return
    name, runs = found.folder.name, ", ".join(found.missing_runs[:_SHOWN])
    more = len(found.missing_runs) - _SHOWN
    error = WindowIncompleteError(
        f"data set {name!r} lacks {len(found.missing)} intervals of {found.asked}: {runs}"
        f"{f' and {more} more' if more > 0 else ''}; tag {name}@{tag} was not changed;"
        f" {found.remedy}; or tag what is there: trainfeed tag {name} {found.asked} {tag}"
        " --allow-missing --why WHY"
    )
    error.missing = found.missing
    raise error


# --- Tags of data: names for exact generations over a range, which move as a whole

# A list of tags opens no version, and does without Arrow.

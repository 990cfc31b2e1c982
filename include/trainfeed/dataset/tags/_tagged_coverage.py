"""The versions of a tag, opened: exactly those that it names, or an error."""

from __future__ import annotations

from pathlib import Path

from trainfeed.dataset.coverage import Coverage, cover, start_of
from trainfeed.dataset.layout import DatasetFolder, check_name
from trainfeed.dataset.tags._tag import Tag, TaggedVersion
from trainfeed.dataset.tags._tag_files import require_tag
from trainfeed.dataset.tags._tag_state import require_there
from trainfeed.dataset.version import Version
from trainfeed.errors import ChecksumError, ConflictError, NotFoundError, WindowError
from trainfeed.intervals import TimeRange, parse_range
from trainfeed.version_names import split_version_name

__all__ = ["TaggedData", "cover_tag"]


class TaggedData:
    """A data set, or a tag of it, as commands and readers name it.

    The name is resolved once: what a reader has opened does not follow the tag.

    Attributes:
        folder: The data set.
        tag: The tag as it was when the name was resolved; None for the data set itself.
    """

    def __init__(self, root: str | Path, name: str) -> None:
        """Resolve ``NAME``, ``NAME@TAG`` or ``NAME@TAG#3``.

        Raises:
            ConfigError: ``name`` has another form.
            NotFoundError: There is no such tag or change, or the tag was removed.
            FormatError: The file of the tag is damaged.
            StorageError: The publication root refused or failed.
        """
        named = split_version_name(name)
        self.folder = DatasetFolder(Path(root), check_name(named.name))
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
    span = parse_range(asked)
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

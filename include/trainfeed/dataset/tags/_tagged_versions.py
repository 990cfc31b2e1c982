"""Which versions are tagged: for withdrawals and retention."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from trainfeed.dataset.layout import DatasetFolder
from trainfeed.dataset.tags._tag import Tag
from trainfeed.dataset.tags._tag_files import listed_tag, tag_names
from trainfeed.errors import AccessDeniedError, FormatError, TrainFeedError

__all__ = ["NamingTags", "TagProblem", "current_tags", "tagged_versions", "tags_naming"]


@dataclass(frozen=True)
class TagProblem:
    """A tag that cannot be read, or was not changed.

    Attributes:
        tag: Name of the tag; "" if the tags cannot be listed.
        error: Why, and what to do.
    """

    tag: str
    error: TrainFeedError

    @property
    def is_damage(self) -> bool:
        """Whether a file is damaged."""
        return isinstance(self.error, FormatError)

    def to_json(self) -> dict[str, str]:
        """Return the JSON that commands print."""
        return {"tag": self.tag, "error": type(self.error).__name__, "message": str(self.error)}


class NamingTags(NamedTuple):
    """The tags that name a version now.

    Attributes:
        names: Their names, sorted.
        problems: Tags that cannot be read: whether they name the version is not known.
    """

    names: tuple[str, ...]
    problems: tuple[TagProblem, ...]


def current_tags(folder: DatasetFolder) -> Iterator[Tag]:
    """Yield the tags that a data set has now, by name.

    Raises:
        FormatError: A tag is damaged, or a folder among the tags is none.
        StorageError: The publication root refused or failed.
    """
    for name in tag_names(folder):
        tag = listed_tag(folder, name)
        if tag is not None and tag.kind == "tag":
            yield tag


def tags_naming(folder: DatasetFolder, interval: str, generation: int) -> NamingTags:
    """Return the tags that name a version now; a tag that cannot be read hides no other.

    Raises:
        StorageError: The publication root refused or failed.
    """
    names, problems = [], []
    for name in tag_names(folder):
        try:
            tag = listed_tag(folder, name)
        except (AccessDeniedError, FormatError) as error:
            problems.append(TagProblem(name, error))
            continue
        # A change that removes the tag has no generations.
        if tag is not None and tag.generations.get(interval) == generation:
            names.append(name)
    return NamingTags(tuple(names), tuple(problems))


def tagged_versions(folder: DatasetFolder) -> frozenset[tuple[str, int]]:
    """Return interval and generation of every version that a tag names now.

    Raises:
        FormatError: A tag is damaged: any version may be one of its; remove none.
        StorageError: The publication root refused or failed; remove none.
    """
    return frozenset(pair for tag in current_tags(folder) for pair in tag.generations.items())

"""Which versions are tagged: for whoever withdraws or removes versions."""

from __future__ import annotations

from collections.abc import Iterator

from trainfeed.dataset.layout import DatasetFolder
from trainfeed.dataset.tags._tag import Tag
from trainfeed.dataset.tags._tag_files import current_tag, tag_names

__all__ = ["current_tags", "tagged_versions", "tags_naming"]


def current_tags(folder: DatasetFolder) -> Iterator[Tag]:
    """Yield the tags that a data set has now, by name.

    Raises:
        FormatError: A tag is damaged.
        StorageError: The publication root refused or failed.
    """
    for name in tag_names(folder):
        tag = current_tag(folder, name)
        if tag is not None and tag.kind == "tag":
            yield tag


def tags_naming(folder: DatasetFolder, interval: str, generation: int) -> list[str]:
    """Return the names of the tags that name a version now, sorted.

    Raises:
        FormatError: A tag is damaged: whether it names the version is not known.
        StorageError: The publication root refused or failed.
    """
    tags = current_tags(folder)
    return [tag.tag for tag in tags if tag.generations.get(interval) == generation]


def tagged_versions(folder: DatasetFolder) -> frozenset[tuple[str, int]]:
    """Return interval and generation of every version that a tag names now.

    Raises:
        FormatError: A tag is damaged: any version may be one of its; remove none.
        StorageError: The publication root refused or failed; remove none.
    """
    return frozenset(pair for tag in current_tags(folder) for pair in tag.generations.items())

"""Versions that a tag names."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from trainfeed.dataset.layout import DatasetFolder
from trainfeed.dataset.tag_files import current_tags
from trainfeed.retention._use import Use

__all__ = ["used_by_tags"]


def used_by_tags(folder: DatasetFolder, _now: datetime) -> Iterator[Use]:
    """Yield the versions of all tags, whatever their age: a tag is how a person keeps a version.

    Raises:
        FormatError: A tag cannot be read, so what it names cannot be told.
        StorageError: The tags cannot be listed.
    """
    for tag in current_tags(folder):
        for interval, generation in tag.generations.items():
            yield Use(interval, generation, f"tag {tag.name} names it")

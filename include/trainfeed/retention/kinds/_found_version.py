"""A published version as retention sees it: size and age, from the file system alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from stat import S_ISREG

from trainfeed.dataset.layout import DatasetFolder, generation_name
from trainfeed.paths import walk
from trainfeed.retention._item import Item
from trainfeed.storage import posix

__all__ = ["VersionItem", "half_removed", "published_at", "size_of", "version_item"]


@dataclass(frozen=True)
class VersionItem(Item):
    """A generation of an interval.

    Attributes:
        interval: Name of the interval.
        generation: Its number.
    """

    interval: str
    generation: int


def version_item(folder: DatasetFolder, kind: str, interval: str, generation: int) -> VersionItem:
    """Return a generation as an item of a kind; its age begins with the publication."""
    path = folder.version(interval, generation)
    return VersionItem(
        kind=kind,
        name=f"{interval}/{generation_name(generation)}",
        num_bytes=size_of(path),
        since=published_at(path),
        places=(str(path),),
        interval=interval,
        generation=generation,
    )


def size_of(path: Path) -> int:
    """Return the size of the files in a folder, in bytes."""
    with posix.map_errors(path):
        found = (file.lstat() for file in walk(path))
        return sum(each.st_size for each in found if S_ISREG(each.st_mode))


def published_at(path: Path) -> datetime:
    """Return the modification time of a version: nothing changes its folder later."""
    with posix.map_errors(path):
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)


def half_removed(folder: DatasetFolder, interval: str) -> Iterator[int]:
    """Yield the generations that are marked as removed, and whose files are still there."""
    for generation in range(1, folder.last_generation(interval) + 1):
        if folder.is_removed(interval, generation) and folder.has_folder(interval, generation):
            yield generation

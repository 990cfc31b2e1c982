"""The versions of a data set for readers, with their facts: from the index, or from manifests."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from trainfeed.dataset import DatasetFolder, Manifest
from trainfeed.dataset.layout import MANIFEST, MANIFEST_DIGEST, generation_name, is_name
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.status._facts import VersionFacts
from trainfeed.status._index import IndexRow, read_index, write_index
from trainfeed.storage.posix import map_errors

__all__ = ["FoundInterval", "found_intervals"]

# A file system's clock has steps. A file that was changed again within one step looks unchanged, so
# files that are younger than this are not indexed yet.
_SETTLED_NS: Final = 2_000_000_000


class FoundInterval(NamedTuple):
    """The folder of an interval's versions.

    Attributes:
        name: Name of the interval.
        generation: The generation that readers get; None without one.
        published: When it was published, seconds since 1970; 0 without one.
        facts: The facts in its manifest; None without one, or if the manifest is damaged.
        damage: Why the manifest cannot be used; None if it can.
        names: Names in the folder, sorted.
    """

    name: str
    generation: int | None
    published: int
    facts: VersionFacts | None
    damage: str | None
    names: list[str]


def found_intervals(folder: DatasetFolder) -> dict[str, FoundInterval]:
    """Return the intervals that have a folder, by name, in order of their names.

    Manifests that the index has no row for are opened, and the index is written again where this
    account may write it.

    Raises:
        StorageError: The publication root refused or failed.
    """
    look = _Look(folder, read_index(folder))
    found = {interval.name: interval for interval in look.intervals()}
    if look.is_index_old():
        write_index(folder, look.rows)
    return found


class _Look:
    """One look at all folders of intervals.

    Args:
        folder: The data set.
        index: The rows of the index.

    Attributes:
        rows: The rows for the next index.
    """

    def __init__(self, folder: DatasetFolder, index: Mapping[str, IndexRow]) -> None:
        self._folder = folder
        self._index = index
        self._opened = 0
        self._settled_ns = time.time_ns() - _SETTLED_NS
        self.rows: list[IndexRow] = []

    def is_index_old(self) -> bool:
        """Whether manifests were opened that the next index has, or rows are of no use."""
        return self._opened > 0 or len(self.rows) != len(self._index)

    def intervals(self) -> Iterator[FoundInterval]:
        """Yield every folder of an interval."""
        place = f"{self._folder.path}/versions"
        with map_errors(place):
            for name in sorted(_listed(place) or ()):
                names = _listed(f"{place}/{name}") if is_name(name) else None
                if names is not None:
                    names.sort()
                    yield self._interval(f"{place}/{name}", name, names)

    def _interval(self, place: str, name: str, names: list[str]) -> FoundInterval:
        row = self._index.get(name)
        is_known = row is not None and row.names == names
        generation = self._readable(name, names, row if is_known else None)
        if generation is None:
            return FoundInterval(name, None, 0, None, None, names)
        identity = _identity_of(f"{place}/{generation_name(generation)}")
        if (
            row is not None
            and is_known
            and [row.generation, row.identity] == [generation, identity]
        ):
            facts = _facts_of(row)
            if facts is not None:
                self.rows.append(row)
                return FoundInterval(name, generation, _published(identity), facts, None, names)
        return self._open(name, names, generation, identity)

    def _readable(self, name: str, names: list[str], row: IndexRow | None) -> int | None:
        """Return the generation that readers get; without a look at CURRENT if there is but one."""
        if row is not None and _is_only(row.generation, names):
            return row.generation
        return self._folder.readable_generation(name)

    def _open(
        self, name: str, names: list[str], generation: int, identity: list[int]
    ) -> FoundInterval:
        try:
            manifest, _ = Manifest.read(self._folder.version(name, generation))
            facts = VersionFacts.of(manifest)
        except (FormatError, NotFoundError, KeyError, TypeError, ValueError) as error:
            why = f"{type(error).__name__}: {error}"
            return FoundInterval(name, generation, _published(identity), None, why, names)
        if identity and max(identity[:2]) < self._settled_ns:
            self.rows.append(IndexRow(name, names, generation, identity, facts.to_json()))
            self._opened += 1
        return FoundInterval(name, generation, _published(identity), facts, None, names)


def _is_only(generation: int, names: list[str]) -> bool:
    """Return whether a generation is the only entry beside the pointer and its lock."""
    others = len(names) - ("CURRENT" in names) - (".lock" in names)
    return others == 1 and generation_name(generation) in names


def _listed(place: str) -> list[str] | None:
    """Return the names in a folder, or None if there is no such folder."""
    try:
        return os.listdir(place)  # noqa: PTH208 (an object for each of many entries takes long)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _identity_of(version: str) -> list[int]:
    """Return numbers that change with any change of the two manifest files; none without them.

    The first is the time of the last write to the manifest, the second that of the last change of
    either file, both in nanoseconds.
    """
    try:
        manifest = os.lstat(f"{version}/{MANIFEST}")
        digest = os.lstat(f"{version}/{MANIFEST_DIGEST}")
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [
        manifest.st_mtime_ns,
        max(manifest.st_ctime_ns, digest.st_ctime_ns),
        manifest.st_size,
        manifest.st_ino,
        digest.st_ino,
    ]


def _published(identity: list[int]) -> int:
    return identity[0] // 1_000_000_000 if identity else 0


def _facts_of(row: IndexRow) -> VersionFacts | None:
    try:
        return VersionFacts.from_json(row.facts)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None

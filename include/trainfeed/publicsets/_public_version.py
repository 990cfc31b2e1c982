"""Versions of public sets, found by the name of the set alone: a set has one interval."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainfeed import canonical_json
from trainfeed.dataset import DatasetFolder, Version
from trainfeed.dataset.layout import parse_generation
from trainfeed.dataset.root import require_readable_root
from trainfeed.errors import ConfigError, NotFoundError
from trainfeed.paths import os_errors
from trainfeed.publicsets._public_place import public_root
from trainfeed.readers import DatasetReader

__all__ = ["LICENCE_FILE", "SOURCE_FILE", "PublicVersion", "open_public", "public_version"]

LICENCE_FILE = "LICENCE.txt"
SOURCE_FILE = "SOURCE.json"


@dataclass(frozen=True)
class PublicVersion:
    """The current version of a public set.

    Attributes:
        name: Name of the set.
        root: The publication root.
        version: The version.
    """

    name: str
    root: Path
    version: Version

    @property
    def source(self) -> dict[str, Any]:
        """The origin that the version names; empty if the set was published without one."""
        if SOURCE_FILE not in self.version.documents():
            return {}
        found: dict[str, Any] = canonical_json.loads(self.version.document(SOURCE_FILE))
        return found

    @property
    def num_bytes(self) -> int:
        """Bytes of all files of the version that its manifest names."""
        return sum(size for size, _ in self.version.manifest.file_digests().values())


def public_version(
    name: str,
    *,
    interval: str | None = None,
    generation: str | None = None,
    root: str | os.PathLike[str] | None = None,
) -> PublicVersion:
    """Return a version of a public set.

    Args:
        name: Name of the set.
        interval: Name of the interval; None if the set has a single one, as those of trainfeed.
        generation: Generation, such as ``g0002``; None takes the current one. A training that is
            to give the same model again names it: a set may get a next generation.
        root: See ``public_root``.

    Raises:
        NotFoundError: The set is not published.
        ConfigError: The set has several intervals and none is named, or no root is known, or
            ``generation`` is no generation.
        RootError: The root is missing, or is no publication root.
        ChecksumError: The manifest differs from the published one.
        StorageError: The version cannot be read.
    """
    place = public_root(root)
    require_readable_root(place, "the root of public sets")
    folder = DatasetFolder(place, name)
    number = None if generation is None else parse_generation(generation)
    found = Version.resolve(folder, interval or _only_interval(folder), number)
    return PublicVersion(name, place, found)


def open_public(
    name: str,
    *,
    split: str,
    interval: str | None = None,
    generation: str | None = None,
    root: str | os.PathLike[str] | None = None,
) -> DatasetReader:
    """Open a split of a public set, for readers and loaders; raises as ``public_version`` does.

    Raises:
        ConfigError: There is no such split.
    """
    found = public_version(name, interval=interval, generation=generation, root=root)
    return DatasetReader([found.version], split)


def _only_interval(folder: DatasetFolder) -> str:
    versions = folder.path / "versions"
    with os_errors(versions):
        names = sorted(path.name for path in versions.iterdir()) if versions.is_dir() else []
    published = [name for name in names if folder.current_generation(name) is not None]
    if not published:
        raise NotFoundError(
            f"expected the public set {folder.name!r} in {folder.root}, it is not published there;"
            f" nothing was read; build it: trainfeed public build {folder.name}"
        )
    if len(published) > 1:
        raise ConfigError(
            f"expected an interval of the public set {folder.name!r}, which has"
            f" {len(published)}, {published[0]} to {published[-1]}; name one, or read several"
            f" with open_dataset({folder.name!r}, interval=…, root={str(folder.root)!r})"
        )
    return published[0]

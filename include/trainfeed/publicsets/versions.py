"""Versions of public sets: where they lie, found by name, verified, and shown for use."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trainfeed.core import canonical_json
from trainfeed.core.config import PUBLIC_FOLDER, public_folder
from trainfeed.core.datacenters import config_path, local_source, local_target
from trainfeed.errors import (
    AccessDeniedError,
    ConfigError,
    FormatError,
    NotFoundError,
    StorageError,
)
from trainfeed.files import os_errors
from trainfeed.readers import DatasetReader
from trainfeed.versions import DatasetFolder, Version
from trainfeed.versions.layout import parse_generation
from trainfeed.versions.root import require_readable_root

# --- The publication root of public sets: ``dataset`` in the public folder of a data centre

# The publication root of public sets, as a path of shared storage.
PUBLIC_ROOT: Final = "pfs://public/dataset"


def public_root(root: str | os.PathLike[str] | None = None) -> Path:
    """Return the publication root of public sets, for readers.

    Args:
        root: The root, as a folder or as ``pfs://public/…``; by default the folder ``dataset`` of
            ``TRAINFEED_PUBLIC``, or else of the public folder of the current data centre.

    Raises:
        ConfigError: No root is given and none is known, the file of data centres is wrong, or the
            public folder of the data centre is not mounted on this machine.
    """
    if root is not None:
        return Path(local_source(root)).absolute()
    if (found := known_public_root()) is None:
        raise ConfigError(
            f"expected {PUBLIC_FOLDER} to name the public folder of a data centre, or a data centre"
            f" in {config_path()}, got neither; nothing was read; set the variable, or name the"
            " root of the public sets"
        )
    return found


def known_public_root() -> Path | None:
    """Return the root of ``TRAINFEED_PUBLIC`` or of the current data centre, None without both.

    Raises:
        AccessDeniedError: This account may not look for the file of data centres.
        ConfigError: The file of data centres is wrong, or the public folder of the data centre is
            not mounted on this machine.
    """
    if (folder := public_folder()) is not None:
        return folder / "dataset"
    path = config_path()
    with os_errors(path):
        is_there = path.exists()
    return Path(local_source(PUBLIC_ROOT)) if is_there else None


def publishing_root(root: str | os.PathLike[str] | None = None) -> Path:
    """Return the publication root of public sets, for builds.

    A build names the folder: users mount the public area read-only, and no path ``pfs://public/…``
    is ever written through.

    Args:
        root: The root as a folder; by default the folder ``dataset`` of ``TRAINFEED_PUBLIC``.

    Raises:
        ConfigError: No root is given, and the variable is not set.
        AccessDeniedError: The root is a path ``pfs://public/…``.
    """
    if root is not None:
        return Path(local_target(root)).absolute()
    if (folder := public_folder()) is None:
        raise ConfigError(
            f"expected {PUBLIC_FOLDER} to name the public folder of a data centre on a mount that"
            " may be written, it is not set; nothing was built; set it, or name the publication"
            " root with --root"
        )
    return folder / "dataset"


# --- Versions of public sets, found by the name of the set alone: a set has one interval

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


# --- The word list of a public set of texts

_WORD_LIST = "words.csv"


def word_numbers(found: PublicVersion) -> dict[str, int]:
    """Return word → number, by descending frequency; the last is ``<unk>``, for all other words.

    Raises:
        NotFoundError: The set has no word list.
        ChecksumError: The list is not the one that was published.
        FormatError: The list is no list of words.
    """
    head, *words = found.version.document(_WORD_LIST).decode().splitlines()
    if head != "word" or not words or len(set(words)) != len(words):
        raise FormatError(
            "expected the column 'word' with different words; nothing was read",
            path=str(found.version.path / "documents" / _WORD_LIST),
        )
    return {word: number for number, word in enumerate(words)}


# --- How programs and trainings read a public set: verified first, then shown as lines to copy

_TURNED_DOWN: Final = "quarantine"
# Sets that Paddle's names read, too.
_PADDLE: Final = frozenset({"bow", "mnist"})


@dataclass(frozen=True)
class PublicUse:
    """A public set that this account can read; every file of it has the published digest.

    Attributes:
        found: The version.
        is_whole: Whether all files were compared. The file of the records that the build turned
            down is closed to other accounts; it is left out where this account may not read it.
        setting: What makes the set known to programs, as a line to copy; None if it is known.
        argument: Argument of ``open_public`` without which the set is not found; or empty.
    """

    found: PublicVersion
    is_whole: bool
    setting: str | None
    argument: str

    @property
    def split(self) -> str:
        """The split of the examples: ``train`` if there is one."""
        splits = sorted(self.found.version.manifest.splits)
        return "train" if "train" in splits else splits[0]

    @property
    def call(self) -> str:
        """The call that opens the set."""
        return f'open_public("{self.found.name}", split="{self.split}"{self.argument})'

    def examples(self) -> dict[str, list[str]]:
        """Return use → lines of Python; each begins with its imports."""
        begin = "from trainfeed.publicsets import open_public"
        path = str(self.found.version.path)
        shown = {
            "a reader": [begin, f"for sample in {self.call}.reader()():", "    …"],
            "a loader, also in train.py": [
                "from trainfeed.loader import DataLoader",
                begin,
                f"with DataLoader({self.call}, 64) as batches:",
                "    for batch in batches:",
                "        …",
            ],
            "a path": [
                "from trainfeed.readers import open_dataset",
                f'data = open_dataset("{path}", split="{self.split}")',
            ],
        }
        if self.found.name in _PADDLE and not self.argument:
            call = f"paddle.dataset.{self.found.name}.train"
            given = "paddle.dataset.bow.word_dict()" if self.found.name == "bow" else ""
            shown["Paddle's names"] = [
                "from trainfeed.compat import paddle",
                f"for sample in {call}({given})():",
                "    …",
            ]
        return shown

    def to_json(self) -> dict[str, Any]:
        """Return the JSON that commands print."""
        manifest = self.found.version.manifest
        return {
            "name": self.found.name,
            "version": self.found.version.name,
            "path": str(self.found.version.path),
            "state": "verified" if self.is_whole else "verified, except turned-down records",
            "splits": {name: split.samples for name, split in manifest.splits.items()},
            "bytes": self.found.num_bytes,
            "fields": manifest.fields,
            "content_digest": manifest.content_digest,
            "source": self.found.source,
            "documents": self.found.version.documents(),
            "setting": self.setting,
            "examples": self.examples(),
        }


def use_public_set(
    name: str, *, interval: str | None = None, root: str | os.PathLike[str] | None = None
) -> PublicUse:
    """Read every byte of a public set that this account may read, and return how programs read it.

    Args:
        name: Name of the set.
        interval: Name of the interval, for a set with several.
        root: See ``public_root``.

    Raises:
        ChecksumError: A file is not the one that was published.
        FormatError: A file is missing or foreign.
        TrainFeedError: The errors of ``public_version``.
    """
    found = public_version(name, interval=interval, root=root)
    is_whole = _verified(found.version)
    chosen = "" if interval is None else f', interval="{interval}"'
    if _is_known(found.root):
        return PublicUse(found, is_whole, None, chosen)
    if found.root.name == "dataset":
        setting = f"export {PUBLIC_FOLDER}={found.root.parent}"
        return PublicUse(found, is_whole, setting, chosen)
    return PublicUse(found, is_whole, None, f'{chosen}, root="{found.root}"')


def _is_known(root: Path) -> bool:
    """Return whether programs of this account find the root by themselves."""
    try:
        return root == known_public_root()
    except (ConfigError, StorageError):
        return False  # the root that was named is read, whatever the data centre's state is


def _verified(version: Version) -> bool:
    """Compare all files that this account may read; return whether these are all."""
    closed = str(version.path / _TURNED_DOWN)
    is_whole = True
    for problem in version.problems():
        if not isinstance(problem, AccessDeniedError) or closed not in str(problem):
            raise problem
        is_whole = False
    return is_whole

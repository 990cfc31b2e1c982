"""``index.json`` of a root: the small files that readers need, for stores without a listing.

A server of files gives what it is asked for, and says not what there is. ``trainfeed index`` writes
the names into the root, each with size and SHA-256; what is not in the index does not exist.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trainfeed.core import canonical_json
from trainfeed.core.datacenters import local_target
from trainfeed.errors import FormatError
from trainfeed.files import FilePath, listed, read_plain
from trainfeed.files.records import RecordFile
from trainfeed.versions.layout import (
    MANIFEST,
    MANIFEST_DIGEST,
    SKIPPED,
    DatasetFolder,
    is_generation,
    parse_generation,
)
from trainfeed.versions.manifest import SOURCES, Manifest
from trainfeed.versions.root import data_sets_of
from trainfeed.versions.version import CHUNKS, STATISTICS

INDEX: Final = "index.json"
# What readers take of a version beside its shards and its manifest.
SMALL_FILES: Final = (CHUNKS, STATISTICS, SOURCES)
# Of 10,000 versions and their decisions: 12 MiB.
MAX_INDEX_BYTES: Final = 64 << 20
_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._+-]{0,249}"
_FILE_NAME: Final = re.compile(f"{_NAME}(?:/{_NAME})+")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
# Decisions about an interval lie beside its generations; CURRENT is a hint for writers.
_DECISIONS: Final = re.compile(r"g[0-9]{4,}\.(withdrawn|removed|restored-.*)|RETIRED\.json")


@dataclass(frozen=True)
class RootIndex:
    """The content of an index.

    Attributes:
        files: Path below the root → size in bytes, and SHA-256 in hex.
    """

    files: dict[str, tuple[int, str]]

    @property
    def num_versions(self) -> int:
        """Number of versions."""
        return sum(path.endswith(f"/{MANIFEST}") for path in self.files)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> RootIndex:
        """Return the index of the JSON of ``to_json``; ValueError and the like for other values."""
        files = {
            str(path): (int(size), str(digest)) for path, (size, digest) in value["files"].items()
        }
        for path, (size, digest) in files.items():
            if not _FILE_NAME.fullmatch(path) or size < 0 or not _DIGEST.fullmatch(digest):
                raise ValueError(f"{path!r}: expected a path, a size and a digest")
        return cls(files)

    def to_json(self) -> dict[str, Any]:
        """Return the index as JSON."""
        return {"files": {path: [*e] for path, e in self.files.items()}}


INDEXES: Final = RecordFile(
    RootIndex,
    "the index of a publication root",
    "nothing was read; write it again where the root is mounted: trainfeed index",
    max_bytes=MAX_INDEX_BYTES,
    format=1,
    from_json=RootIndex.from_json,
    to_json=RootIndex.to_json,
)


def write_index(root: FilePath) -> RootIndex:
    """Write the index of a publication root, in place of an earlier one; return it.

    Every manifest is read and verified. A version that is published meanwhile is in the next index.

    Args:
        root: The root, where it is mounted.

    Raises:
        ChecksumError: A manifest is not the one that was published. The old index stays.
        FormatError: A manifest, or another file, is damaged. The old index stays.
        StorageError: The file system refused or failed.
    """
    root = Path(local_target(root))
    files = {
        path.relative_to(root).as_posix(): entry
        for name in data_sets_of(root)
        for path, entry in _files(DatasetFolder(root, name))
    }
    index = RootIndex(dict(sorted(files.items())))
    INDEXES.replace(root / INDEX, index)
    return index


def is_decision(name: str) -> bool:
    """Return whether a file beside the generations of an interval is one that readers need."""
    return _DECISIONS.fullmatch(name) is not None


def _files(folder: DatasetFolder) -> Iterator[tuple[Path, tuple[int, str]]]:
    yield from map(_entry, _decisions(folder))
    for interval in folder.intervals():
        home = folder.interval(interval)
        yield from (_entry(path) for path in listed(home) if is_decision(path.name))
        for name in sorted(folder.names_in(home)):
            if not is_generation(name) or folder.is_removed(interval, parse_generation(name)):
                continue
            # A folder that loses its mark and its files meanwhile is retention's.
            path = home / name
            if not (path / MANIFEST).is_file():
                continue
            manifest, _ = Manifest.read(path)
            yield from (_entry(path / each) for each in (MANIFEST, MANIFEST_DIGEST))
            digests = manifest.file_digests()
            yield from ((path / each, digests[each]) for each in SMALL_FILES if each in digests)


def _decisions(folder: DatasetFolder) -> Iterator[Path]:
    candidates = [
        folder.schedule,
        *(path for tag in listed(folder.tags) for path in listed(tag, "*.json")),
        *(home / SKIPPED for home in listed(folder.path / "plans")),
        *listed(folder.holes, "*.json"),
        *listed(folder.path / "unpublished", "*.json"),
    ]
    return (path for path in candidates if path.is_file())


def _entry(path: Path) -> tuple[Path, tuple[int, str]]:
    data = read_plain(path, follow=False, max_bytes=canonical_json.MAX_BYTES)
    return path, (len(data), hashlib.sha256(data).hexdigest())


def require_listed(data: bytes, entry: tuple[int, str], path: str) -> bytes:
    """Return the bytes of a file that an index names.

    Raises:
        FormatError: They are others.
    """
    found = len(data), hashlib.sha256(data).hexdigest()
    if found != entry:
        raise FormatError(
            f"expected {entry[0]} bytes with SHA-256 {entry[1]} as in {INDEX}, got {found[0]} with"
            f" {found[1]}; the file or the index is of another time: write the index again",
            path=path,
        )
    return data

"""What is wrong with the files of a version, and the report of what became of each file."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Final, Literal, TypeAlias

from trainfeed.core.canonical_json import JsonFields
from trainfeed.errors import FormatError, StorageError
from trainfeed.files import open_plain, walk
from trainfeed.files.stores.posix import map_errors
from trainfeed.pipeline.quarantine_access import PRIVATE_MODE, QUARANTINE_FILE
from trainfeed.versions import Version
from trainfeed.versions.chunks import decoder_of
from trainfeed.versions.layout import BUILT, MANIFEST, MANIFEST_DIGEST
from trainfeed.versions.publication import compare_file
from trainfeed.versions.version import ShardChunk

# --- What is wrong with one file of a version


class FindingKind(StrEnum):
    """The kinds of damage; each leads to one way of repair."""

    MISSING = "missing"
    CHANGED = "changed"
    SIZE = "wrong size"
    NOT_A_FILE = "not a file"
    SECOND_NAME = "second name"
    UNREADABLE = "unreadable"
    MODE = "wrong mode"
    EXTRA = "extra"


# The kinds after which the bytes of the file have to be made again, or copied.
MADE_AGAIN: Final = frozenset(
    {
        FindingKind.MISSING,
        FindingKind.CHANGED,
        FindingKind.SIZE,
        FindingKind.NOT_A_FILE,
        FindingKind.SECOND_NAME,
        FindingKind.UNREADABLE,
    }
)


@dataclass(frozen=True)
class Finding(JsonFields, names={"name": "file"}):
    """A file of a version that is not as the manifest says.

    Attributes:
        name: Path of the file, relative to the version.
        kind: The kind of damage.
        what: What was expected, and what was found.
    """

    name: str
    kind: FindingKind
    what: str


# --- Tells which chunks of a damaged shard are damaged, for the message

_MOST: Final = 3


def damaged_chunks(version: Version, name: str) -> str:
    """Return a part of a message, which begins with a semicolon; empty if it cannot be told.

    Args:
        version: The version.
        name: A file with another digest than that of the manifest.
    """
    place = _place(version, name)
    if place is None:
        return ""
    split, number = place
    try:
        chunks = [each for each in version.chunks(split) if each.shard == number]
        damaged = list(_damaged(version, name, chunks))
    except (FormatError, StorageError):
        return ""
    if not damaged:
        return f"; its {len(chunks)} chunks are intact, bytes between them are not"
    more = f" and {len(damaged) - _MOST} more" if len(damaged) > _MOST else ""
    return f"; damaged of its {len(chunks)} chunks: {', '.join(damaged[:_MOST])}{more}"


def _place(version: Version, name: str) -> tuple[str, int] | None:
    for split, entry in version.manifest.splits.items():
        for number, shard in enumerate(entry.shards):
            if shard.name == name:
                return split, number
    return None


def _damaged(version: Version, name: str, chunks: list[ShardChunk]) -> Iterator[str]:
    decoder = decoder_of(version.schema, {int(each.info.codec) for each in chunks})
    with open_plain(version.path / name, follow=False) as file:
        for number, chunk in enumerate(chunks):
            info = chunk.info
            try:
                decoder.read(file, info)
            except FormatError:
                end = info.offset_bytes + info.head_bytes + info.stored_bytes
                yield f"number {number} (bytes {info.offset_bytes} to {end})"


# --- Finds all that is wrong with the files of a version, also what readers would not notice

_PUBLIC_MODE: Final = 0o444
_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
_OF_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def find_damage(version: Version) -> list[Finding]:
    """Return every finding about a version, those about its listed files first; nothing changes.

    All bytes are read. ``Version.problems`` names the same differences in files; this search tells
    their kinds, and finds wrong modes, too.

    Args:
        version: The version; its manifest is intact.

    Raises:
        StorageError: The folder cannot be listed.
    """
    expected = version.manifest.file_digests()
    found = [each for name in sorted(expected) for each in _look(version, name, *expected[name])]
    replaced = {each.name for each in found if each.kind is FindingKind.NOT_A_FILE}
    return [*found, *_extra(version.path, expected, replaced)]


def mode_of(name: str) -> int:
    """Return the permissions that a published file has."""
    return PRIVATE_MODE if name == QUARANTINE_FILE else _PUBLIC_MODE


def _look(version: Version, name: str, num_bytes: int, sha256: str) -> Iterator[Finding]:
    try:
        status = _status(version.path, name)
    except StorageError as error:
        yield Finding(name, FindingKind.UNREADABLE, str(error))
        return
    if status is None:
        yield Finding(name, FindingKind.MISSING, "the manifest lists it, and it is not there")
    elif not stat.S_ISREG(status.st_mode):
        what = f"expected a plain file, got {_kind_of(status.st_mode)}"
        yield Finding(name, FindingKind.NOT_A_FILE, what)
    elif status.st_size != num_bytes:
        what = f"expected {num_bytes} bytes, got {status.st_size}"
        yield Finding(name, FindingKind.SIZE, what)
    else:
        yield from _read(version, name, (num_bytes, sha256), status)


def _status(folder: Path, name: str) -> os.stat_result | None:
    """Return the status of a file; None if it is missing, or would be reached by a link."""
    parents = [folder / parent for parent in PurePosixPath(name).parents[:-1]]
    with map_errors(folder / name), suppress(FileNotFoundError, NotADirectoryError):
        if all(stat.S_ISDIR(parent.lstat().st_mode) for parent in parents):
            return (folder / name).lstat()
    return None


def _read(
    version: Version, name: str, expected: tuple[int, str], status: os.stat_result
) -> Iterator[Finding]:
    if status.st_nlink != 1:
        what = f"expected a file with one name, got {status.st_nlink}: others may change it"
        yield Finding(name, FindingKind.SECOND_NAME, what)
        return
    for problem in compare_file(version.path / name, *expected):
        if isinstance(problem, StorageError):
            yield Finding(name, FindingKind.UNREADABLE, str(problem))
        else:
            what = f"expected SHA-256 {expected[1]}, got another{damaged_chunks(version, name)}"
            yield Finding(name, FindingKind.CHANGED, what)
        return
    if why := _wrong_mode(name, stat.S_IMODE(status.st_mode)):
        yield Finding(name, FindingKind.MODE, why)


def _wrong_mode(name: str, mode: int) -> str | None:
    expected = mode_of(name)
    if expected == PRIVATE_MODE:
        is_wrong = bool(mode & _OF_OTHERS)
    else:
        is_wrong = mode & expected != expected or bool(mode & _WRITABLE_BY_OTHERS)
    return f"expected mode {expected:04o}, got {mode:04o}" if is_wrong else None


def _kind_of(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    return "a folder" if stat.S_ISDIR(mode) else "something else"


def _extra(
    folder: Path, expected: Mapping[str, object], replaced: Collection[str]
) -> Iterator[Finding]:
    """Yield what nobody published: files, and folders as a whole."""
    known = {*expected, MANIFEST, MANIFEST_DIGEST, BUILT}
    folders = {str(parent) for name in expected for parent in PurePosixPath(name).parents}
    with map_errors(folder):
        present = sorted(path.relative_to(folder).as_posix() for path in walk(folder))
    above = set(replaced)
    for name in present:
        parents = {str(parent) for parent in PurePosixPath(name).parents}
        is_folder = name in folders and stat.S_ISDIR((folder / name).lstat().st_mode)
        if name in known or is_folder or parents & above:
            continue
        above.add(name)
        yield Finding(name, FindingKind.EXTRA, "it is there, and the manifest does not list it")


# --- The report of a repair: what was found, and what became of each file

Outcome: TypeAlias = Literal["found", "repaired", "not repaired"]


@dataclass(frozen=True)
class FileOutcome(JsonFields, without=("finding",)):
    """What became of one finding.

    Attributes:
        finding: The finding.
        outcome: ``found`` in a dry run; else whether the file is now as it was published.
        how: How it was repaired, or why it was not; in a dry run, how it would be.
    """

    finding: Finding
    outcome: Outcome
    how: str

    def to_json(self) -> dict[str, str]:
        """Return the outcome as commands print it."""
        return {**self.finding.to_json(), **super().to_json()}


@dataclass(frozen=True)
class Effort:
    """What was computed again to make files.

    Attributes:
        records: Number of records that were preprocessed.
        source_reads: Number of records that were read from the source itself.
        shards: Number of shards that were written.
        seconds: Duration.
    """

    records: int = 0
    source_reads: int = 0
    shards: int = 0
    seconds: float = 0.0

    def __add__(self, other: Effort) -> Effort:
        return Effort(
            self.records + other.records,
            self.source_reads + other.source_reads,
            self.shards + other.shards,
            round(self.seconds + other.seconds, 3),
        )


@dataclass(frozen=True)
class RepairReport(JsonFields, also=("is_whole",), names={"effort": "recomputed"}):
    """The result of a repair, or of a dry run.

    Attributes:
        version: ``<data set>/<interval>/<generation>``.
        dry_run: Whether nothing was changed.
        files: The outcome of every finding; empty if the version was intact.
        effort: What was computed again.
        offers: What can be done about files that were not repaired, one sentence each.
    """

    version: str
    dry_run: bool
    files: tuple[FileOutcome, ...] = ()
    effort: Effort = field(default_factory=Effort)
    offers: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether every file of the version is now as it was published."""
        return all(each.outcome == "repaired" for each in self.files)

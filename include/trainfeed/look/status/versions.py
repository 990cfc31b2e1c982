"""Versions as the status sees them: facts from manifests or the index, and gaps in time."""

from __future__ import annotations

import json
import logging
import os
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

import xxhash

from trainfeed.core.intervals import parse_time
from trainfeed.errors import FormatError, NotFoundError, StorageError
from trainfeed.files import read_plain
from trainfeed.files.stores import posix
from trainfeed.files.stores.posix import map_errors
from trainfeed.versions import DatasetFolder
from trainfeed.versions.interval_notes import told_passed_over
from trainfeed.versions.layout import MANIFEST, MANIFEST_DIGEST, generation_name, is_name
from trainfeed.versions.manifest import Manifest

# --- The facts about a published version from which the state of its interval follows

_SHOWN: Final = 3

# Topic, a digest of its id and cluster, its partitions, and for each the first offset and the one
# behind the last. Lists, as JSON has them: neighbours are compared as a whole.
TopicRange: TypeAlias = tuple[str, str, list[int], list[int], list[int]]


# Source, first offset and the one behind the last, and why the loss was accepted.
RecordedGap: TypeAlias = tuple[str, int, int, str]


# Named tuples: frozen dataclasses take five times as long to make, and there are thousands.
class VersionFacts(NamedTuple):
    """The facts about one version.

    Attributes:
        start: Start of the interval, seconds since 1970.
        end: End of the interval, likewise.
        samples: Number of samples.
        empty: Why nothing was read, for an empty version; else None.
        gaps: The recorded gaps, ranges of offsets that were lost: source, start, end, and the
            reason for accepting it.
        late: Number of records stamped before the interval.
        late_from: The earliest stamp of such a record, milliseconds since 1970.
        topics: The offsets that were read, for sources with offsets.
        passed_over: The entries of the folder of logs that were not read, in words, without
            markers; empty if there were none.
    """

    start: int
    end: int
    samples: int
    empty: str | None
    gaps: tuple[RecordedGap, ...]
    late: int
    late_from: int
    topics: list[TopicRange]
    passed_over: str = ""

    @classmethod
    def of(cls, manifest: Manifest) -> VersionFacts:
        """Return the facts of a manifest."""
        start = parse_time(manifest.interval.start)
        lateness = timedelta(milliseconds=manifest.late.get("max_lateness_ms", 0))
        return cls(
            start=int(start.timestamp()),
            end=int(parse_time(manifest.interval.end).timestamp()),
            samples=manifest.num_samples(),
            empty=_why_empty(manifest) if manifest.empty else None,
            gaps=tuple((g["source"], g["start"], g["end"], g["why"]) for g in manifest.gaps),
            late=manifest.late.get("late", 0),
            late_from=_milliseconds(start - lateness),
            topics=_topics(manifest.inputs),
            passed_over=told_passed_over(manifest.passed_over, marker=False),
        )

    @property
    def lost(self) -> tuple[str, ...]:
        """The recorded gaps, one line each."""
        return tuple(
            f"{source} offsets [{start}, {end}) are lost: {why}"
            for source, start, end, why in self.gaps
        )

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of an index row; facts that do not apply are left out."""
        rest: dict[str, Any] = {
            "empty": self.empty,
            "gaps": [list(gap) for gap in self.gaps],
            "late": [self.late, self.late_from] if self.late else [],
            "topics": [list(topic) for topic in self.topics],
            "passed_over": self.passed_over,
        }
        kept = {name: value for name, value in rest.items() if value not in (None, [], "")}
        return {"start": self.start, "end": self.end, "samples": self.samples, **kept}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> VersionFacts:
        """Read the JSON of ``to_json``.

        Raises:
            KeyError, TypeError, ValueError: ``row`` is no such JSON.
        """
        start, end, samples = row["start"], row["end"], row["samples"]
        late, late_from = row.get("late") or (0, 0)
        empty = row.get("empty")
        gaps = tuple((source, at, to, why) for source, at, to, why in row.get("gaps", ()))
        topics = [
            (topic, identity, numbers, starts, ends)
            for topic, identity, numbers, starts, ends in row.get("topics", ())
        ]
        if not (type(start) is type(end) is type(samples) is type(late) is type(late_from) is int):
            raise TypeError("expected whole numbers")
        texts = [each for source, _, _, why in gaps for each in (source, why)]
        if not (empty is None or isinstance(empty, str)) or "".join(texts) is None:
            raise TypeError("expected texts")
        if not all(type(at) is type(to) is int for _, at, to, _ in gaps):
            raise TypeError("expected whole numbers")
        passed_over = row.get("passed_over", "")
        if not isinstance(passed_over, str):
            raise TypeError("expected texts")
        return cls(start, end, samples, empty, gaps, late, late_from, topics, passed_over)


def _why_empty(manifest: Manifest) -> str:
    reasons = [f"{source}: {why}" for source, why in manifest.empty_because.items()]
    more = f" … and {len(reasons) - _SHOWN} more" if len(reasons) > _SHOWN else ""
    return "; ".join(reasons[:_SHOWN]) + more or "no record became a sample"


def _topics(inputs: Mapping[str, Mapping[str, Any]]) -> list[TopicRange]:
    found: dict[tuple[str, str], TopicRange] = {}
    for source, planned in inputs.items():
        if "partition" in planned:
            name, _, _ = source.rpartition("/")
            topic = f"{planned['topic_uuid']} {planned['cluster']}"
            identity = xxhash.xxh3_64_hexdigest(topic.encode())
            *_, numbers, starts, ends = found.setdefault(
                (name, identity), (name, identity, [], [], [])
            )
            numbers.append(planned["partition"])
            starts.append(planned["start"])
            ends.append(planned["end"])
    return [found[key] for key in sorted(found)]


def _milliseconds(time: datetime) -> int:
    return round(time.timestamp() * 1000)


# --- The index of a data set: facts about its versions, so that manifests need not be opened again

logger = logging.getLogger(__name__)

INDEX: Final = "STATUS.jsonl"

# Room for a hundred thousand versions; a longer file is not read.
_MAX_BYTES: Final = 256 << 20
# Rows of another format are of no use, so they are left out like damaged ones.
_HEAD: Final = b'{"format":2,"sum":"'
_ROW: Final = b'","row":'
_SUM_CHARS: Final = 16
_AT: Final = len(_HEAD) + _SUM_CHARS + len(_ROW)


class IndexRow(NamedTuple):
    """One version, with the evidence that it is still the same.

    Attributes:
        interval: Name of the interval.
        names: Names in the folder of the interval, sorted.
        generation: The generation that readers get.
        identity: Numbers that change with the files of the manifest; see ``identity_of``.
        facts: The facts in the manifest, as JSON.
    """

    interval: str
    names: list[str]
    generation: int
    identity: list[int]
    facts: Mapping[str, Any]

    def to_line(self) -> bytes:
        """Return the line of the file, with its line end."""
        data = json.dumps(self, separators=(",", ":")).encode()
        return _HEAD + xxhash.xxh3_64_hexdigest(data).encode() + _ROW + data + b"}\n"


def parse_index(data: bytes) -> dict[str, IndexRow]:
    """Return the rows of an index by interval; lines that are damaged are left out.

    Args:
        data: The bytes of the file.
    """
    lines = [line[_AT:-1] for line in data.split(b"\n") if _is_intact(line)]
    try:
        values: list[Any] = json.loads(b"[" + b",".join(lines) + b"]")
        rows = [IndexRow._make(value) for value in values]
    except (ValueError, TypeError, RecursionError):
        return {}  # not written by this module, although the checksums are right
    return {row.interval: row for row in rows if _is_typed(row.interval, row.generation)}


def read_index(folder: DatasetFolder) -> dict[str, IndexRow]:
    """Return the rows of the index by interval; none if it cannot be read."""
    try:
        return parse_index(read_plain(folder.path / INDEX, follow=False, max_bytes=_MAX_BYTES))
    except (FormatError, StorageError) as error:
        logger.info("every manifest of %s is opened: %s", folder.name, error)
        return {}


def write_index(folder: DatasetFolder, rows: Iterable[IndexRow]) -> bool:
    """Replace the index; return whether this account could."""
    data = b"".join(row.to_line() for row in rows)
    try:
        posix.replace_file(folder.path / INDEX, data, is_public=True)
    except StorageError as error:
        logger.info("the next status of %s will take as long: %s", folder.name, error)
        return False
    return True


def _is_typed(interval: object, generation: object) -> bool:
    """Return whether values have the types that the others are compared by."""
    return isinstance(interval, str) and type(generation) is int


def _is_intact(line: bytes) -> bool:
    if not (line.startswith(_HEAD) and line.endswith(b"}")):
        return False
    written = line[len(_HEAD) : len(_HEAD) + _SUM_CHARS]
    return xxhash.xxh3_64_hexdigest(line[_AT:-1]).encode() == written


# --- The versions of a data set for readers, with their facts: from the index, or from manifests

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


# --- Versions on the time line: where late records are

# Interval and facts of a version; lists of them are in order of time.
Dated: TypeAlias = tuple[str, VersionFacts]


def late_since(
    versions: Sequence[Dated], published: Mapping[str, int]
) -> dict[str, tuple[int, str]]:
    """Return interval → time since which late records of it are known, and where they are.

    A manifest counts the late records of its interval and has the earliest stamp: the interval
    with this stamp has late records for certain. Others may have some, too.

    Args:
        versions: Every version, in order of time.
        published: Interval → time of publication, seconds since 1970.
    """
    found: dict[str, tuple[int, str]] = {}
    starts = [facts.start for _, facts in versions]
    for name, facts in versions:
        if not facts.late:
            continue
        number = bisect_right(starts, facts.late_from // 1000) - 1
        if number < 0 or facts.late_from >= versions[number][1].end * 1000:
            continue  # the records are of an interval that is not published
        since = (published[name], name)
        owner = versions[number][0]
        found[owner] = min(since, found.get(owner, since))
    return found


# --- Offsets that no interval has read, by the ranges of versions that follow each other in time


def unread_offsets(versions: Sequence[tuple[str, VersionFacts]]) -> dict[str, tuple[str, ...]]:
    """Return interval → what lies between it and the interval before, one line for each range.

    Args:
        versions: Interval and facts of every version, in order of time.
    """
    found = {}
    for (_, earlier), (name, later) in pairwise(versions):
        if earlier.end == later.start and (lines := tuple(_between(earlier, later))):
            found[name] = lines
    return found


def _between(earlier: VersionFacts, later: VersionFacts) -> Iterator[str]:
    before = {topic[:2]: topic for topic in earlier.topics}
    for name, identity, numbers, starts, _ in later.topics:
        old = before.get((name, identity)) or _of_other_member(earlier.topics, name, identity)
        if old is None:
            continue  # a topic that was added, or made again under its name
        old_name, _, old_numbers, _, old_ends = old
        if old_numbers == numbers and old_ends == starts:
            continue
        ends = dict(zip(old_numbers, old_ends, strict=True))
        for number, start in zip(numbers, starts, strict=True):
            if start != (end := ends.pop(number, 0)):
                known = [each for each in earlier.gaps if each[0] == f"{old_name}/{number}"]
                known += (each for each in later.gaps if each[0] == f"{name}/{number}")
                yield from _lines(f"{name}/{number}", end, start, known)
        for number, end in ends.items():
            yield f"{name}/{number} is not read from offset {end} on"


def _of_other_member(topics: Sequence[TopicRange], name: str, identity: str) -> TopicRange | None:
    """Return the same topic where the member that reads it had another name, or was no member."""
    same = [topic for topic in topics if topic[1] == identity]
    if not same:
        return None
    # On demand: other statuses start without numpy.
    from trainfeed.versions.order import split_member

    _, alone = split_member(name)
    return next((topic for topic in same if split_member(topic[0])[1] == alone), None)


def _lines(source: str, end: int, start: int, gaps: Sequence[RecordedGap]) -> Iterator[str]:
    if start < end:
        yield f"{source} offsets [{start}, {end}) are in two intervals"
    # What is recorded as lost needs no line; the rest does.
    for lost, known in sorted((lost, known) for _, lost, known, _ in gaps):
        if end < min(lost, start):
            yield f"{source} offsets [{end}, {min(lost, start)}) are in no interval"
        end = max(end, known)
    if end < start:
        yield f"{source} offsets [{end}, {start}) are in no interval"

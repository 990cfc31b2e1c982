"""Recorded topics: landing files in a folder, written and read as if a broker served them."""

from __future__ import annotations

import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from types import TracebackType
from typing import Any, BinaryIO, Final, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trainfeed.errors import (
    ConflictError,
    FormatError,
    NotFoundError,
    SourceReplacedError,
    TopicNotFoundError,
)
from trainfeed.files.stores import Location
from trainfeed.sources.landing import (
    LANDING_SCHEMA,
    LandingFile,
    LandingWriter,
    landing_name,
    partition_folder,
)
from trainfeed.sources.topic import (
    MAX_STAMP_BYTES,
    OffsetRange,
    PartitionState,
    Stamps,
    TopicIdentity,
    check_available,
    check_topic_name,
)

# --- Offsets and timestamps of recorded files

_NO_STAMPS: Final = np.empty(0, np.int64)


class FileKey(NamedTuple):
    """A state of a file: one that was written again, or belongs to another topic, differs.

    Attributes:
        uuid: Id of the topic.
        uri: The file.
        size_bytes: Its length.
        modified_ms: When it was written, milliseconds since 1970 UTC.
    """

    uuid: str
    uri: str
    size_bytes: int
    modified_ms: int


class FileStamps(NamedTuple):
    """The records of a file.

    Attributes:
        offsets: Ascending, int64 of shape (n,).
        stamps: Milliseconds since 1970 UTC, int64 of shape (n,); -1 where a record has none.
        latest_ms: The latest stamp; -1 without records.
    """

    offsets: NDArray[np.int64]
    stamps: NDArray[np.int64]
    latest_ms: int

    @classmethod
    def of(cls, parts: list[tuple[NDArray[np.int64], NDArray[np.int64]]]) -> FileStamps:
        """Join the parts of a file."""
        columns = zip(*[(_NO_STAMPS, _NO_STAMPS), *parts], strict=True)
        offsets, stamps = (np.concatenate(column) for column in columns)
        for column in (offsets, stamps):
            column.flags.writeable = False
        return cls(offsets, stamps, int(stamps.max()) if len(stamps) else -1)

    @property
    def num_bytes(self) -> int:
        """Bytes in memory."""
        return self.offsets.nbytes + self.stamps.nbytes


class KeptStamps:
    """Keeps the files that were used last, up to a number of bytes, and always the last one.

    Args:
        most_bytes: The number.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._num_bytes = 0
        self._files = OrderedDict[FileKey, FileStamps]()
        self._lock = threading.Lock()

    def get(self, key: FileKey, load: Callable[[], FileStamps]) -> FileStamps:
        """Return the records of a file; ``load`` is called for one that is not kept."""
        with self._lock:
            if key in self._files:
                self._files.move_to_end(key)
                return self._files[key]
        found = load()
        with self._lock:
            self._keep(key, found)
        return found

    def _keep(self, key: FileKey, found: FileStamps) -> None:
        before = self._files.pop(key, None)
        self._num_bytes += found.num_bytes - (before.num_bytes if before else 0)
        self._files[key] = found
        while self._num_bytes > self._most_bytes and len(self._files) > 1:
            self._num_bytes -= self._files.popitem(last=False)[1].num_bytes


# --- Writes recorded topics: a folder of landing files that stands in for a broker

TOPIC_FILE = "TOPIC.json"


def record_topic(
    location: Location,
    topic: str,
    uuid: str,
    partitions: Mapping[int, Iterable[pa.RecordBatch]],
    rows_per_file: int,
) -> None:
    """Write a recorded topic into a folder that is new or empty; on an error, remove it.

    Args:
        location: The folder.
        topic: Name of the topic.
        uuid: Id that distinguishes this recording from others of the same name.
        partitions: By partition number, from 0 without a hole: batches of ``LANDING_SCHEMA`` by
            ascending offset.
        rows_per_file: Most records of one landing file.

    Raises:
        ConflictError: The folder is not empty.
        ConfigError: ``topic`` or ``uuid`` is no safe name.
        ValueError: Partition numbers have a hole, offsets do not ascend, or a record has no
            offset or timestamp.
        StorageError: The file system failed.
    """
    if sorted(partitions) != list(range(len(partitions))) or rows_per_file < 1:
        raise ValueError(
            f"expected partitions 0 to {len(partitions) - 1} and rows_per_file >= 1, got"
            f" {sorted(partitions)} and {rows_per_file}"
        )
    names = {"topic": check_topic_name(topic), "uuid": check_topic_name(uuid)}
    location.make_dir()
    if there := location.list():
        raise ConflictError(
            f"expected an empty folder for a recorded topic, found {there[0].name!r} in"
            f" {location.uri}; remove it or choose another folder"
        )
    try:
        _record_all(location, names, partitions, rows_per_file)
    except BaseException:
        location.delete(recursive=True)  # half a recording would be in the way of the next attempt
        raise


def _record_all(
    location: Location,
    names: Mapping[str, str],
    partitions: Mapping[int, Iterable[pa.RecordBatch]],
    rows_per_file: int,
) -> None:
    ranges = [
        _record_partition(location / partition_folder(number), partitions[number], rows_per_file)
        for number in range(len(partitions))
    ]
    text = json.dumps(
        {**names, "partitions": [{"start": start, "end": end} for start, end in ranges]},
        ensure_ascii=False,
        separators=(",", ":"),
        sort_keys=True,
    )
    (location / TOPIC_FILE).write_atomic(lambda file: _write_all(file, text.encode()))


def _record_partition(
    folder: Location, batches: Iterable[pa.RecordBatch], rows_per_file: int
) -> tuple[int, int]:
    """Write the files of one partition and return its range; ``(0, 0)`` without records."""
    folder.make_dir()
    first, end = None, 0
    for table in _cut(batches, rows_per_file):
        offsets = table.column("offset")
        # A file begins where the last one ended, even if offsets in between have no record.
        start = offsets[0].as_py() if first is None else end
        first = start if first is None else first
        end = _check_ascending(offsets, start)
        (folder / landing_name(start, end)).write_atomic(partial(_write, table=table))
    return (first or 0), end


def _cut(batches: Iterable[pa.RecordBatch], rows_per_file: int) -> Iterator[pa.Table]:
    pending = LANDING_SCHEMA.empty_table()
    for batch in batches:
        _check_stamped(batch)
        pending = pa.concat_tables([pending, pa.Table.from_batches([batch], LANDING_SCHEMA)])
        while pending.num_rows >= rows_per_file:
            yield pending.slice(0, rows_per_file)
            pending = pending.slice(rows_per_file)
    if pending.num_rows:
        yield pending


def _check_stamped(batch: pa.RecordBatch) -> None:
    for name in ("offset", "timestamp", "timestamp_type"):
        column = batch.column(name)
        if column.null_count:
            row = column.is_null().index(pa.scalar(value=True)).as_py()
            raise ValueError(f"expected every record to have its {name}, got null in row {row}")


def _check_ascending(offsets: pa.ChunkedArray, start: int) -> int:
    """Check that offsets ascend, and return the end of the range."""
    values = offsets.combine_chunks()
    ascending = pc.all(pc.greater(values[1:], values[:-1])).as_py() is not False
    if values[0].as_py() < start or not ascending:
        raise ValueError(f"expected offsets to ascend from {start} on")
    return int(values[-1].as_py()) + 1


def _write(file: BinaryIO, table: pa.Table) -> None:
    writer = LandingWriter(file)
    for batch in table.combine_chunks().to_batches():
        writer.write(batch)
    writer.close({})


def _write_all(file: BinaryIO, data: bytes) -> None:
    file.write(data)


# --- A recorded topic: landing files in a folder, read as if a broker served them

_CLUSTER: Final = "recorded"
_MAX_TOPIC_FILE_BYTES: Final = 1 << 20
# Files with at most so many batches (16,384 records each) are held in memory as a whole.
_MAX_HELD_BATCHES: Final = 8
_STAMP_BYTES: Final = 16
# Of all recorded topics of the process: a million records.
_KEPT: Final = KeptStamps(_STAMP_BYTES << 20)
_FILE_NAME = re.compile(r"(\d{20})-(\d{20})\.arrow")


@dataclass(frozen=True)
class _Recording:
    """The content of TOPIC.json."""

    identity: TopicIdentity
    ranges: tuple[tuple[int, int], ...]


class _File(NamedTuple):
    start: int
    end: int
    location: Location
    size_bytes: int
    modified_ms: int


class RecordedTopic:
    """A topic in a folder of landing files; see ``record_topic``.

    The digest of a file is verified before its first record is yielded.

    Args:
        location: The folder that holds ``TOPIC.json``.
    """

    def __init__(self, location: Location) -> None:
        self._location = location
        self._files: dict[int, list[_File]] = {}
        self._verified: set[Location] = set()

    @property
    def identity(self) -> TopicIdentity:
        """The identity of the topic."""
        return self._recording.identity

    @property
    def is_compacted(self) -> bool:
        """False: a recorded topic does not change."""
        return False

    def partitions(self) -> list[int]:
        """Return the numbers of the partitions, ascending."""
        return list(range(len(self._recording.ranges)))

    def log_range(self, partition: int) -> tuple[int, int]:
        """Return the first recorded offset, and the one behind the last."""
        ranges = self._recording.ranges
        if not 0 <= partition < len(ranges):
            raise TopicNotFoundError(
                f"topic {self.identity.topic!r} in {self._location.uri} has partitions 0 to"
                f" {len(ranges) - 1}, got {partition}"
            )
        return ranges[partition]

    def states(self) -> dict[int, PartitionState]:
        """Return the recorded range of every partition, without open transactions and leaders."""
        return {
            partition: PartitionState(start, end, high_watermark=end, leader_epoch=None)
            for partition, (start, end) in enumerate(self._recording.ranges)
        }

    def offsets_at(self, times_ms: Mapping[int, int]) -> dict[int, int | None]:
        """Return partition → offset of the first record stamped at or after a time."""
        return {partition: self._offset_at(partition, at) for partition, at in times_ms.items()}

    def _offset_at(self, partition: int, timestamp_ms: int) -> int | None:
        for file in self._partition_files(partition):
            offsets, stamps, latest_ms = self._stamps_of(file)
            if latest_ms >= timestamp_ms:
                return int(offsets[np.flatnonzero(stamps >= timestamp_ms)[0]])
        return None

    def read_stamps(
        self,
        partition: int,
        start: int,
        end: int,
        *,
        max_records: int,
        max_bytes: int = MAX_STAMP_BYTES,
    ) -> Stamps:
        """Return the stamps of the first records of ``[start, end)``; see ``Topic``.

        Keys and values are not read: a record counts as the 16 bytes of its offset and stamp.
        """
        span = self._span(partition, start, end)
        check_available(span, *self.log_range(partition))
        most = max(1, min(max_records, max_bytes // _STAMP_BYTES))
        parts, count, reached = [(_NO_STAMPS, _NO_STAMPS)], 0, end
        for file in self._overlapping(span):
            offsets, stamps, _ = self._stamps_of(file)
            first, behind = np.searchsorted(offsets, (start, end))
            # The rows of this file in the range, but not more than are still wanted.
            rows = slice(first, min(behind, first + most - count))
            parts.append((offsets[rows], stamps[rows]))
            count += len(offsets[rows])
            if count == most:
                reached = int(offsets[rows][-1]) + 1
                break
        offsets, stamps = (np.concatenate(column) for column in zip(*parts, strict=True))
        return Stamps(offsets, stamps, count * _STAMP_BYTES, reached)

    def iter_batches(self, partition: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Yield every record of ``[start, end)`` by ascending offset; see ``Topic``."""
        span = self._span(partition, start, end)
        check_available(span, *self.log_range(partition))
        for file in self._overlapping(span):
            yield from self._iter_file(file, span)
        if _load(self._location) != self._recording:
            raise SourceReplacedError(
                f"{span}: {TOPIC_FILE} in {self._location.uri} changed while it was read; nothing"
                " of this range was kept; run the build again"
            )

    def close(self) -> None:
        """Do nothing: files are open only while they are read."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @cached_property
    def _recording(self) -> _Recording:
        return _load(self._location)

    def _span(self, partition: int, start: int, end: int) -> OffsetRange:
        return OffsetRange(self.identity.topic, partition, start, end)

    def _partition_files(self, partition: int) -> list[_File]:
        """Return the files of a partition; they cover its range without a hole."""
        if partition not in self._files:
            start, end = self.log_range(partition)
            folder = self._location / partition_folder(partition)
            files = sorted(_list_files(folder)) if start < end else []
            # Each file must begin at the end of the one before, and the last one end at ``end``.
            edges = [start, *(file.end for file in files)]
            if [file.start for file in files] != edges[:-1] or edges[-1] != end:
                raise FormatError(
                    f"expected landing files that cover offsets [{start}, {end}) without a hole,"
                    f" got {[file.location.uri for file in files]}",
                    path=folder.uri,
                )
            self._files[partition] = files
        return self._files[partition]

    def _overlapping(self, span: OffsetRange) -> Iterator[_File]:
        for file in self._partition_files(span.partition):
            if file.start < span.end and span.start < file.end:
                yield file

    def _stamps_of(self, file: _File) -> FileStamps:
        """Return offsets and stamps of a file; this process keeps those that it used last."""

        def load() -> FileStamps:
            with LandingFile.open(file.location) as landing:
                return FileStamps.of(list(landing.iter_stamps()))

        uuid = self._recording.identity.uuid
        key = FileKey(uuid, file.location.uri, file.size_bytes, file.modified_ms)
        return _KEPT.get(key, load)

    def _iter_file(self, file: _File, span: OffsetRange) -> Iterator[pa.RecordBatch]:
        with LandingFile.open(file.location) as landing:
            if file.location not in self._verified and landing.num_batches <= _MAX_HELD_BATCHES:
                # Held as a whole: verifying first and decompressing again would double the time.
                held = list(landing.iter_batches(verifies=True))
                self._verified.add(file.location)
                yield from (batch for batch in (_within(b, span) for b in held) if len(batch))
                return
            if file.location not in self._verified:
                landing.verify()
                self._verified.add(file.location)
            for index, (offsets, _) in enumerate(landing.iter_stamps()):
                first, behind = np.searchsorted(offsets, (span.start, span.end))
                if first < behind:
                    yield landing.read_batch(index).slice(first, behind - first)


def _within(batch: pa.RecordBatch, span: OffsetRange) -> pa.RecordBatch:
    offsets = batch.column("offset").to_numpy()
    first, behind = np.searchsorted(offsets, (span.start, span.end))
    return batch.slice(first, behind - first)


def _list_files(folder: Location) -> Iterator[_File]:
    for info in folder.list():
        if match := _FILE_NAME.fullmatch(info.name):
            start, end = int(match[1]), int(match[2])
            yield _File(start, end, folder / info.name, info.size_bytes, info.modified_ms)


def _load(location: Location) -> _Recording:
    path = location / TOPIC_FILE
    try:
        data = path.read_bytes(max_bytes=_MAX_TOPIC_FILE_BYTES)
    except NotFoundError as error:
        raise TopicNotFoundError(
            f"expected a recorded topic, found no {path.uri}; record it, or change the folder"
        ) from error
    try:
        return _parse(json.loads(data))
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(
            f"expected {{topic, uuid, partitions: [{{start, end}}]}}, got {error!r}", path=path.uri
        ) from error


def _parse(value: Any) -> _Recording:
    identity = TopicIdentity(
        check_topic_name(value["topic"]), check_topic_name(value["uuid"]), _CLUSTER
    )
    ranges = tuple((int(entry["start"]), int(entry["end"])) for entry in value["partitions"])
    if any(not 0 <= start <= end for start, end in ranges):
        raise ValueError(ranges)
    return _Recording(identity, ranges)

"""The reader of every kind of source: it plans, reads a head, and proves what it has read."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import cramjam
import pyarrow as pa

from trainfeed.core.config import Environment
from trainfeed.core.intervals import Interval
from trainfeed.core.printable_text import printable
from trainfeed.errors import (
    ChecksumError,
    FormatError,
    NotFoundError,
    SourceReplacedError,
    StorageError,
    TopicNotFoundError,
)
from trainfeed.files.stores import FileInfo, Location
from trainfeed.pipeline.inputs.kept_inputs import KeptInputs
from trainfeed.pipeline.inputs.line_fields import CSV
from trainfeed.pipeline.inputs.logs import (
    LogInputs,
    find_interval_logs,
    log_location,
    logs_folders,
    logs_of,
)
from trainfeed.pipeline.inputs.protocols import Head, Inputs, SourceReader
from trainfeed.pipeline.inputs.row_files import RowRange, copy_head, iter_rows, kept_layouts
from trainfeed.pipeline.inputs.row_json import with_fields
from trainfeed.pipeline.inputs.tables import (
    TableInputs,
    check_data_files,
    iter_data_file,
    with_heads,
)
from trainfeed.pipeline.inputs.topics import (
    AbsentTopic,
    TopicAbsence,
    TopicInputs,
    open_source,
    open_topics,
)
from trainfeed.pipeline.inputs.unions import UnionInputs, UnionReader
from trainfeed.pipeline.landed_ranges import (
    REMEDY,
    is_of_range,
    landed_batches,
    landing_file,
    leaf_of,
    opened_landing,
    promised_leaf,
    remedy_in_errors,
)
from trainfeed.pipeline.planned_lists import paths_of
from trainfeed.pipeline.plans import (
    PlannedFile,
    PlannedInput,
    PlannedRange,
    first_few,
)
from trainfeed.pipeline.stage import Stage
from trainfeed.sources import MISSING, LineRange, LogFile, Topic, iter_lines, list_entries
from trainfeed.specification import (
    DatasetSpec,
    IcebergSourceSpec,
    KafkaTopics,
    LogsSourceSpec,
    RecordedSourceSpec,
    SourceKind,
    UnionSource,
    expand_path,
)
from trainfeed.versions import DatasetFolder, Leaf
from trainfeed.versions.order import source_hash, split_member

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# --- Plans and reads topics, from a broker or from a folder of recorded topics


class TopicReader(SourceReader):
    """Reads ranges of offsets, and compares the identity of the topic at each of them."""

    @contextmanager
    def open(
        self, spec: DatasetSpec, env: Environment, folder: DatasetFolder, interval: Interval
    ) -> Iterator[Inputs]:
        """Open every topic, and resolve both boundaries of the interval.

        Raises:
            IngestError: A broker does not answer.
            TransactionOpenError: Open transactions may hide records of the interval.
            WindowOpenError: A topic has no record of the interval, and is waited for.
        """
        absence = TopicAbsence(spec, interval, datetime.now(UTC))
        found: Inputs
        with ExitStack() as stack:
            try:
                windows = stack.enter_context(open_topics(spec, env, folder, interval))
                found = TopicInputs(spec, env, windows, absence)
            except TopicNotFoundError as error:
                # No error yet: the interval may be published already, or the rule may skip it.
                found = AbsentTopic(absence, env, error)
            yield found

    def check(self, stage: Stage, sources: Iterable[str]) -> None:
        """Do nothing: ``batches`` compares the identity of the topic."""

    def batches(self, stage: Stage, piece: PlannedRange) -> Iterator[pa.RecordBatch]:
        """Yield the records of a range of offsets.

        Raises:
            SourceReplacedError: The topic is not the one that was planned.
            OffsetOutOfRangeError: Retention deleted records of the range.
            IngestError: The broker does not answer.
        """
        planned = _planned(stage, piece)
        with closing(open_source(stage.env, planned.connection, planned.topic)) as topic:
            _check_identity(topic, planned)
            yield from topic.iter_batches(planned.partition, piece.start, piece.end)

    def head(
        self,
        spec: DatasetSpec,  # noqa: ARG002 - any range of offsets can be read
        interval: Interval,  # noqa: ARG002
        env: Environment,
        place: Path,  # noqa: ARG002
        limit: int,  # noqa: ARG002
    ) -> Head:
        """Return ``env``: the first offsets of a range can be read without a copy."""
        return Head(env)


def _planned(stage: Stage, piece: PlannedRange) -> PlannedInput:
    planned = stage.plan.inputs[piece.source]
    if not isinstance(planned, PlannedInput):
        raise TypeError(f"expected {piece.source} to be a topic")
    return planned


def _check_identity(topic: Topic, planned: PlannedInput) -> None:
    found = topic.identity
    if (found.uuid, found.cluster) != (planned.topic_uuid, planned.cluster):
        raise SourceReplacedError(
            f"topic {planned.topic!r} was replaced since the plan was made: planned"
            f" {planned.topic_uuid} in cluster {planned.cluster}, found {found.uuid} in cluster"
            f" {found.cluster}; landed ranges and published versions are kept; run the build again"
            " to build from the new topic"
        )


# --- Reads the planned log files, and makes sure that they are those of the plan

# A request or two per file; waiting for the answers takes most of the time.
_THREADS: Final = 8


def check_folder(stage: Stage, sources: Iterable[str]) -> None:
    """Compare the files of a task with the plan, and once in a build the names in the folder.

    The names are the part of the task that reads the first range: with each task, they would take
    a time that grows with the square of the number of files.

    Args:
        stage: The stage at work.
        sources: Sources whose files are compared by all facts; none if the plan has no range.

    Raises:
        SourceReplacedError: Files changed, vanished, were replaced or added; it names them.
        FormatError: An entry was added that is neither a log file nor passed over.
    """
    _require_marker(stage)
    names = sorted(sources)
    first = next((piece.source for piece in stage.plan.ranges), None)
    wanted = [_file(stage, source) for source in names]
    problems: list[str] = []
    infos: dict[str, FileInfo] = {}
    if first is None or first in names:
        infos, problems = _listed(stage)
        wanted = [file for file in wanted if file.path in infos]

    def look(file: PlannedFile) -> list[str]:
        try:
            location = log_location(stage.env, file.connection, file.path)
            return _changes(stage, file, infos.get(file.path) or location.stat())
        except NotFoundError:
            return [f"{file.path} is gone"]

    with ThreadPoolExecutor(_THREADS, "logs") as pool:
        for changes in pool.map(look, wanted):
            problems += changes
    _refuse(stage, problems)


def _listed(stage: Stage) -> tuple[dict[str, FileInfo], list[str]]:
    """Return the files of the folder by path, and what differs from the plan by its name."""
    interval = stage.plan.times
    folders = logs_folders(_logs(stage), stage.env, interval)
    path = expand_path(_logs(stage).path, interval, _logs(stage).zone)
    planned = paths_of(stage.plan.inputs)
    try:
        entries = list_entries(folders, _logs(stage).marker)
        entries.require({each.removeprefix(f"{path}/") for each in planned})
    except NotFoundError:
        found, logs = {}, set()
    else:
        # An older plan may name a file that is passed over by now: it is there nevertheless.
        found = {f"{path}/{name}": info for name, info in entries.infos.items()}
        logs = {f"{path}/{info.name}" for info in entries.logs}
    problems = [f"{path} was added" for path in sorted(logs - planned)]
    return found, problems + [f"{path} is gone" for path in sorted(planned - found.keys())]


def iter_log(stage: Stage, piece: PlannedRange) -> Iterator[pa.RecordBatch]:
    """Yield the records of one range of a log file.

    The batches are valid only after the iterator has ended without an error.

    Returns:
        Batches of ``LANDING_SCHEMA``, for files of columns with a further column ``fields``; at
        least one row each; they stay valid.

    Raises:
        SourceReplacedError: The file is not the one that was planned.
        FormatError: The file does not decompress, has a line that is too long, or is damaged or of
            another format.
        StorageError: The file cannot be read.
    """
    planned = _file(stage, piece.source)
    _check_file(stage, planned)
    try:
        yield from _records(stage, planned, piece)
    except (FormatError, StorageError):
        # If the file changed meanwhile, the change is the cause, not the damage that was seen.
        _check_file(stage, planned)
        raise
    # A checksum covers the whole file. Asked for each piece of a large file, it would cost one pass
    # over the file per piece; for those, the one check in ``ingest`` has to do.
    _check_file(stage, planned, asks_checksum=piece.end - piece.start == planned.end)
    _require_marker(stage)


def _records(stage: Stage, planned: PlannedFile, piece: PlannedRange) -> Iterator[pa.RecordBatch]:
    location = log_location(stage.env, planned.connection, planned.path)
    if planned.kind is not None:
        rows = RowRange(
            location=location,
            file_format=planned.kind,
            source=piece.source,
            size_bytes=planned.end,
            start=piece.start,
            end=piece.end,
            timestamp_ms=planned.timestamp_ms,
        )
        return iter_rows(rows, kept_layouts(stage.folder, planned), _logs(stage).columns)
    span = LineRange(
        location=location,
        compression=planned.compression,
        size_bytes=planned.end,
        start=piece.start,
        end=piece.end,
        timestamp_ms=planned.timestamp_ms,
        max_line_bytes=_logs(stage).max_line_bytes,
        needs_lf=_logs(stage).cut_line == "fail",
        cuts_long=_logs(stage).long_lines == "quarantine",
    )
    return iter_lines(span)


def _require_marker(stage: Stage) -> None:
    """Refuse a folder whose marker is gone: a writer is at work on the folder again."""
    if stage.plan.marker is None:
        return
    folders = logs_folders(_logs(stage), stage.env, stage.plan.times)
    gone = []
    try:
        bases = folders.found_bases()
    except NotFoundError:
        bases = []  # that its files are gone says more
    for base in bases:
        marker = folders.at(base) / stage.plan.marker
        is_planned = stage.plan.passed_over.get(printable(base)) != MISSING
        if is_planned and not marker.exists() and folders.at(base).exists():
            gone.append(f"{marker.path} was there and is gone, so the folder is not complete")
    _refuse(stage, gone)


def _check_file(stage: Stage, planned: PlannedFile, *, asks_checksum: bool = False) -> None:
    location = log_location(stage.env, planned.connection, planned.path)
    try:
        info = location.stat()
    except NotFoundError:
        _refuse(stage, [f"{planned.path} is gone"])
    else:
        _refuse(stage, _changes(stage, planned, info, asks_checksum=asks_checksum))


def _changes(
    stage: Stage, planned: PlannedFile, info: FileInfo, *, asks_checksum: bool = True
) -> list[str]:
    """Return one line when the file is not the planned one."""
    now = {
        "end": info.size_bytes,
        "modified_ms": info.modified_ms,
        "file_id": info.file_id,
        "checksum": None,
    }
    changes = _found(planned, now)
    if asks_checksum and not changes and planned.checksum is not None:
        location = log_location(stage.env, planned.connection, planned.path)
        changes = _found(planned, {**now, "checksum": location.checksum()})
    return [f"{planned.path}: {', '.join(changes)}"] if changes else []


def _found(planned: PlannedFile, now: Mapping[str, object]) -> list[str]:
    return planned.model_copy(update=now).changes(planned.model_dump())


def _refuse(stage: Stage, problems: list[str]) -> None:
    if problems:
        raise SourceReplacedError(
            f"log files of {stage.plan.dataset}/{stage.plan.interval['name']} are not those that"
            f" were planned: {first_few(problems)}; nothing was published; run the build again to"
            " build from what is there now"
        )


def _file(stage: Stage, source: str) -> PlannedFile:
    planned = stage.plan.inputs[source]
    if not isinstance(planned, PlannedFile):
        raise TypeError(f"expected {source} to be a log file")
    return planned


def _logs(stage: Stage) -> LogsSourceSpec:
    return logs_of(stage.spec)


# --- Plans and reads log files, one folder per interval; reads the first records for a preview

_COPIES: Final = "logs"
# Modification time of the copies, old enough for every rule that waits for a stable folder.
_LONG_AGO_S: Final = 0
_COMPRESSORS: Final[Mapping[str, Callable[[], Any]]] = {
    "gzip": cramjam.gzip.Compressor,
    "bz2": cramjam.bzip2.Compressor,
    "lz4": cramjam.lz4.Compressor,
    "snappy": cramjam.snappy.Compressor,
    "zstd": cramjam.zstd.Compressor,
}
# Bytes that are written or compressed at once.
_FILL_BYTES: Final = 1 << 20


class LogReader(SourceReader):
    """Reads byte ranges of log files, and compares every file and its folder with the plan."""

    @contextmanager
    def open(
        self, spec: DatasetSpec, env: Environment, folder: DatasetFolder, interval: Interval
    ) -> Iterator[LogInputs]:
        """Look at the folder of the interval.

        Raises:
            StorageError: The file system does not answer.
        """
        yield LogInputs(spec, env, folder, interval)

    def check(self, stage: Stage, sources: Iterable[str]) -> None:
        """Compare the folder of the interval, and the files of ``sources``, with the plan.

        Raises:
            SourceReplacedError: Files changed, vanished, were replaced or added; it names them.
        """
        check_folder(stage, sources)

    def batches(self, stage: Stage, piece: PlannedRange) -> Iterator[pa.RecordBatch]:
        """Yield the lines of a range of bytes.

        Raises:
            SourceReplacedError: The file is not the one that was planned.
            FormatError: The file does not decompress, or has a line that is too long.
            StorageError: The file cannot be read.
        """
        return iter_log(stage, piece)

    def head(
        self, spec: DatasetSpec, interval: Interval, env: Environment, place: Path, limit: int
    ) -> Head:
        """Copy the first lines or rows, and return an environment that finds the copies.

        Raises:
            WindowOpenError: The folder of the interval is not complete.
            FormatError: A file does not decompress, or has a line that is too long.
            StorageError: A file cannot be read.
        """
        # Stores of two members of a union may have equal paths.
        copies = place / _COPIES / logs_of(spec).connection
        return _with_log_heads(spec, interval, env, copies, limit)


def _with_log_heads(
    spec: DatasetSpec, interval: Interval, env: Environment, place: Path, limit: int
) -> Head:
    """Copy the first records of the interval's log files; return an environment with the copies.

    Args:
        spec: A data set of log files.
        interval: The interval.
        env: Folders and connections.
        place: Folder for the copies, which have the names and the compression of the originals.
            Files behind the last wanted record are not copied.
        limit: Number of records in all, divided among the files; headers of CSV are not counted.

    Raises:
        WindowOpenError: The folder of the interval is not complete.
        FormatError: A file does not decompress, or has a line that is too long.
        StorageError: A file cannot be read.
    """
    logs = logs_of(spec)
    path = expand_path(logs.path, interval, logs.zone)
    folder = log_location(env, logs.connection, path)
    copies = place / path.lstrip("/")
    found = find_interval_logs(spec, env, interval)
    for base in found.bases:
        (copies / base).mkdir(parents=True, exist_ok=True)
        if logs.marker is not None:
            (copies / base / logs.marker).touch()
    files = found.files
    left = limit
    for number, file in enumerate(files):
        if not left:
            break
        # An equal share of the lines that are left, rounded up: short files leave more to others.
        share = -(-left // (len(files) - number))
        copy = copies / file.info.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if not logs.is_of_lines:
            left -= copy_head(copy, _head_range(folder / file.info.name, file, logs), logs, share)
            continue
        # The header of a file of CSV is a record that yields no sample: it comes besides.
        header = logs.format == CSV
        span = _whole_file(folder / file.info.name, file, logs)
        left -= max(0, _copy_lines(copy, span, share + header) - header)
    for copy in (*copies.rglob("*"), copies):
        os.utime(copy, (_LONG_AGO_S, _LONG_AGO_S))
    seen = replace(env, logs={**env.logs, logs.connection: str(place)})
    return Head(seen, found.entries.passed_over)


def _head_range(location: Location, file: LogFile, logs: LogsSourceSpec) -> RowRange:
    size = file.info.size_bytes
    return RowRange(location, logs.format, file.info.name, size, 0, size, 0)


def _whole_file(location: Location, file: LogFile, logs: LogsSourceSpec) -> LineRange:
    size = file.info.size_bytes
    return LineRange(
        location=location,
        compression=file.compression,
        size_bytes=size,
        start=0,
        end=size,
        timestamp_ms=0,
        max_line_bytes=logs.max_line_bytes,
        needs_lf=logs.cut_line == "fail",
        cuts_long=logs.long_lines == "quarantine",
    )


def _copy_lines(path: Path, span: LineRange, limit: int) -> int:
    """Copy the first lines of a file; return their number."""
    copied = 0
    with closing(_lines(span)) as lines, _created(path, span.compression) as copy:
        for value, rest_bytes, end in islice(lines, limit):
            copy.write(value)
            _fill(copy, rest_bytes, is_plain=span.compression == "none")
            copy.write(end)
            copied += 1
    return copied


def _lines(span: LineRange) -> Generator[tuple[bytes, int, bytes]]:
    """Yield value, number of further bytes and end of every line."""
    before: tuple[int, bytes] | None = None
    for batch in iter_lines(span):
        offsets, values = (batch.column(name).to_pylist() for name in ("offset", "value"))
        for offset, value in zip(offsets, values, strict=True):
            if before is not None:
                # A value has no line end, but the copy needs the original one: its offsets must
                # equal those of a build. A distance of two bytes between two lines was CR LF, a
                # larger one the rest of a line that is too long.
                rest = offset - before[0] - len(before[1]) - 2
                yield before[1], max(0, rest), b"\r\n" if rest >= 0 else b"\n"
            before = offset, value
    if before is not None:
        # Nothing follows, so its end may be of any length: with CR LF, a CR before it stays.
        yield before[1], 0, b"\r\n"


def _fill(copy: io.BufferedWriter, num_bytes: int, *, is_plain: bool) -> None:
    """Write the rest of a line that is too long: no record has it, and memory may not hold it."""
    blanks = b" " * min(num_bytes, _FILL_BYTES)
    if is_plain:
        # What is skipped takes no space on a disk. Blanks before it: the head of a file of text
        # has no bytes of 0.
        copy.write(blanks)
        copy.seek(num_bytes - len(blanks), os.SEEK_CUR)
        return
    while num_bytes:
        num_bytes -= copy.write(blanks[:num_bytes])


def _created(path: Path, compression: str) -> io.BufferedWriter:
    file = path.open("wb")
    if compression == "none":
        return file
    return io.BufferedWriter(_Compressed(file, _COMPRESSORS[compression]()), _FILL_BYTES)


class _Compressed(io.RawIOBase):
    """A compressed file that is written in pieces.

    Args:
        file: The file, which is closed with this one.
        compressor: Compresses the pieces.
    """

    def __init__(self, file: BinaryIO, compressor: Any) -> None:
        self._file = file
        self._compressor = compressor

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        """Compress a piece, and write what it became."""
        piece = bytes(data)
        self._compressor.compress(piece)
        self._file.write(bytes(self._compressor.flush()))
        return len(piece)

    def close(self) -> None:
        """Write the end of the stream."""
        if not self.closed:
            with self._file:
                self._file.write(bytes(self._compressor.finish()))
        super().close()


# --- Plans and reads a table of Iceberg


class TableReader(SourceReader):
    """Reads row groups of data files, and compares every file with the plan."""

    @contextmanager
    def open(
        self, spec: DatasetSpec, env: Environment, folder: DatasetFolder, interval: Interval
    ) -> Iterator[TableInputs]:
        yield TableInputs(spec, env, folder, interval)

    def check(self, stage: Stage, sources: Iterable[str]) -> None:
        check_data_files(stage, sources)

    def batches(self, stage: Stage, piece: PlannedRange) -> Iterator[pa.RecordBatch]:
        return iter_data_file(stage, piece)

    def head(
        self, spec: DatasetSpec, interval: Interval, env: Environment, place: Path, limit: int
    ) -> Head:
        return Head(*with_heads(spec, interval, env, place, limit))


# --- The reader of every kind of source, and the records of a piece with their proof

# Class of the source in a specification → reader.
READERS: Final[dict[type[SourceKind], SourceReader]] = {
    KafkaTopics: TopicReader(),
    RecordedSourceSpec: TopicReader(),
    LogsSourceSpec: LogReader(),
    IcebergSourceSpec: TableReader(),
}


def markers_of(source: Inputs) -> dict[str, str]:
    """Return member of a union → the file that marked its folder complete; none for others."""
    return dict(source.markers) if isinstance(source, UnionInputs | KeptInputs) else {}


def reader_of(spec: DatasetSpec) -> SourceReader:
    """Return the reader for the source of a data set."""
    return READERS[type(spec.source.kind)]


READERS[UnionSource] = UnionReader(reader_of)


class PieceReader:
    """Reads the records of one landing file, or of a range of a source that does not land.

    Args:
        stage: The stage at work.
        piece: The range.

    Attributes:
        read: Account of the records yielded so far.
        is_source: Whether the source itself is read, not a landing file.
    """

    def __init__(self, stage: Stage, piece: PlannedRange) -> None:
        self._planned = stage.plan.inputs[piece.source]
        self._location = landing_file(stage.landing, self._planned, piece)
        _, self._alone = split_member(piece.source)
        self._number = source_hash(piece.source)
        self._stage, self._piece = stage, piece
        self._own = stage.of_source(piece.source)
        self.is_source = not stage.lands(piece.source)
        self.read = Leaf()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the records, as batches of ``LANDING_SCHEMA``, by offset.

        The proof that they are the landed ones is complete only behind the last batch. After an
        error before that, ``verify`` tells whether the landing file is damaged.

        Raises:
            NotFoundError: The landing file is missing.
            ChecksumError: The landing file is damaged, or holds other records than were landed.
            SourceReplacedError: The source is not the one that was planned.
            FormatError: A log file does not decompress, or has a line that is too long.
        """
        if self.is_source:
            reader = reader_of(self._stage.spec)
            for batch in reader.batches(self._stage, self._piece):
                self.read += leaf_of(batch, self._number)
                yield batch
            return
        with opened_landing(self._location, verified=False) as landing:
            with remedy_in_errors():
                promised = promised_leaf(landing)
            landed, number = Leaf(), source_hash(self._alone)
            for batch in landed_batches(landing, verifies=True):
                if not is_of_range(self._planned, self._piece, batch):
                    raise ChecksumError(
                        f"expected records of offsets [{self._piece.start}, {self._piece.end}), got"
                        f" those of another range; {REMEDY}",
                        path=self._location.uri,
                    )
                leaf = leaf_of(batch, self._number)
                self.read += leaf
                # The account in the file is that of the source, without the member that reads it.
                landed += leaf if number == self._number else leaf_of(batch, number)
                yield self._as_read(batch)
        if landed != promised:
            raise ChecksumError(
                f"records are not those that were landed; {REMEDY}", path=self._location.uri
            )

    def _as_read(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return landed records as their source gives them: rows of columns land as JSON."""
        kind = self._own.spec.source.kind
        if not isinstance(kind, LogsSourceSpec | IcebergSourceSpec) or not kind.has_columns:
            return batch
        if not isinstance(self._planned, PlannedFile):
            raise TypeError(f"expected {self._piece.source} to be a file of columns")
        layouts = kept_layouts(self._stage.folder, self._planned)
        if layouts is None:
            raise FormatError(f"expected the layout of {self._planned.path} in the plan, got none")
        names = layouts.files[self._alone].columns
        return with_fields(batch, {name: layouts.types[name] for name in names})

    def verify(self) -> None:
        """Read a landing file once more, only to compare its digest.

        Raises:
            ChecksumError: The landing file is damaged.
        """
        if not self.is_source:
            with opened_landing(self._location):
                pass

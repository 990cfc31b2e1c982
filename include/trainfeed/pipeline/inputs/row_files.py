"""Files whose records are counted: rows of files of columns, and records of RecordIO and TFRecord.

A plan gives ranges of bytes to tasks, for these files as for log files. Which rows a range has is
known from the *layouts* of the files: their columns, and where their groups of rows begin. They are
read once, when an interval is planned, and are kept as one file by its digest.
"""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from trainfeed.core import canonical_json
from trainfeed.errors import ConfigError, FormatError, NotFoundError
from trainfeed.files import read_plain
from trainfeed.files.stores import Location, posix
from trainfeed.pipeline.plans import Plan, PlannedFile, PlannedRange
from trainfeed.preprocessing.column_types import widened
from trainfeed.preprocessing.source_record import FIELDS
from trainfeed.recordio import (
    ChunkBuffers,
    RecordIndex,
    RecordWriter,
    read_chunk,
    split_records,
)
from trainfeed.sources import LANDING_SCHEMA
from trainfeed.sources.column_files import (
    ColumnLayout,
    ColumnRange,
    column_layout,
    copy_avro_head,
    iter_columns,
    require_groups,
    unreadable,
)
from trainfeed.sources.column_footers import RowGroup, groups_of
from trainfeed.specification import LogsSourceSpec
from trainfeed.specification.log_source import COLUMN_FORMATS
from trainfeed.tfrecord import TFRecordWriter, iter_records
from trainfeed.versions import DatasetFolder
from trainfeed.versions.order import split_member

# --- The layouts of the files of an interval, and the file that keeps them

_RECORDIO: Final = "recordio"
_TFRECORD: Final = "tfrecord"
_AVRO: Final = "avro"
# Formats whose files have layouts: TFRecord shows its records only to who reads them all.
LAID_OUT: Final = COLUMN_FORMATS | {_RECORDIO}
# Two or three small reads per file; waiting for the answers takes most of the time.
_THREADS: Final = 8
_AGAIN: Final = "build the interval again (in Airflow: clear the run from plan on)"
_MOST_FOUND: Final = 3


@dataclass(frozen=True)
class FileLayout:
    """The layout of one file.

    Attributes:
        columns: Those of its columns that are read.
        groups: Its groups of rows, in order of the rows.
        stored: Name of a column → name in the file; None for a column that is null in all of its
            rows. None, and not in the file of layouts, where the names are those of the file.
    """

    columns: tuple[str, ...]
    groups: tuple[RowGroup, ...]
    stored: Mapping[str, str | None] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the layout as JSON."""
        value = {"columns": list(self.columns), "groups": [list(group) for group in self.groups]}
        return value if self.stored is None else {**value, "stored": dict(self.stored)}


@dataclass(frozen=True)
class Layouts:
    """The layouts of the files of an interval.

    Attributes:
        types: Name → type of every column that is read, the same for all files; empty for RecordIO
            and TFRecord.
        files: Source string → layout of the file.
    """

    types: Mapping[str, pa.DataType]
    files: Mapping[str, FileLayout]

    def to_bytes(self) -> bytes:
        """Return canonical JSON."""
        schema = pa.schema(list(self.types.items())).serialize().to_pybytes()
        files = {source: each.to_json() for source, each in self.files.items()}
        return canonical_json.dumps({"types": base64.b64encode(schema).decode(), "files": files})

    @classmethod
    def from_bytes(cls, data: bytes, path: str) -> Layouts:
        """Read what ``to_bytes`` returned.

        Raises:
            FormatError: ``data`` is something else.
        """
        try:
            value = canonical_json.loads(data, path=path)
            schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(value["types"])))
            files = {
                source: FileLayout(
                    tuple(each["columns"]),
                    tuple(RowGroup(*group) for group in each["groups"]),
                    each.get("stored"),
                )
                for source, each in value["files"].items()
            }
        except (KeyError, TypeError, AttributeError, binascii.Error, pa.ArrowException) as error:
            raise FormatError(f"expected layouts of files: {error!r}", path=path) from error
        return cls({field.name: field.type for field in schema}, files)


def keep_layouts(folder: DatasetFolder, layouts: Layouts) -> str:
    """Write layouts below the publication root, unless they are there; return their digest.

    Raises:
        StorageError: The publication root refused or failed.
    """
    data = layouts.to_bytes()
    digest = sha256(data).hexdigest()
    path = folder.layouts(digest)
    with posix.map_errors(path):
        if path.exists():
            return digest
    posix.make_public_dir(path.parent)
    posix.create_exclusive(path, data, mode=0o644)
    return digest


def kept_layouts(folder: DatasetFolder, planned: PlannedFile) -> Layouts | None:
    """Return the layouts that a plan names; None for a plan that names none.

    Raises:
        NotFoundError: The file is gone.
        FormatError: The file is damaged.
        StorageError: The publication root refused or failed.
    """
    # Files of CSV have their headers there, and no rows.
    if planned.layouts is None or planned.kind is None:
        return None
    return _kept(folder.layouts(planned.layouts))


def kept_headers(folder: DatasetFolder, planned: PlannedFile) -> Layouts:
    """Return the layouts that a plan of files of CSV names: the headers of the files.

    Raises:
        NotFoundError: The file is gone.
        FormatError: The file is damaged, or the plan names none.
        StorageError: The publication root refused or failed.
    """
    if planned.layouts is None:
        raise FormatError(
            f"expected the header of {planned.path} in the plan, got none; nothing was published;"
            f" {_AGAIN}"
        )
    return _kept(folder.layouts(planned.layouts))


@lru_cache(maxsize=2)
def _kept(path: Path) -> Layouts:
    try:
        data = read_plain(path, follow=True, max_bytes=canonical_json.MAX_BYTES)
    except NotFoundError as error:
        raise NotFoundError(
            f"the layouts of the planned files, {path}, are missing; nothing was published;"
            f" {_AGAIN}, which writes them again"
        ) from error
    if sha256(data).hexdigest() != path.name.partition(".")[0]:
        raise FormatError(
            f"expected the layouts with the digest of the name; nothing was published; remove the"
            f" file, then {_AGAIN}, which writes it again",
            path=str(path),
        )
    return Layouts.from_bytes(data, str(path))


# --- Reads layouts from the files, and makes one type of each column


def read_layouts(
    logs: LogsSourceSpec, files: Mapping[str, tuple[Location, PlannedFile]]
) -> Layouts:
    """Read the layouts of the files of an interval.

    Args:
        logs: The specification of the source.
        files: Source string → location and facts of every file.

    Raises:
        FormatError: A file is damaged, cut or of another format, or two files have a column in
            types of which none holds the values of both; the message names both.
        ConfigError: A column has a type that is not read, or no file has a column that is to be.
        StorageError: A file cannot be read.
    """
    names = sorted(files, key=str.encode)
    with ThreadPoolExecutor(_THREADS, "layouts") as pool:
        found = dict(zip(names, pool.map(lambda name: _layout(*files[name]), names), strict=True))
    if not logs.has_columns:
        layouts = {name: FileLayout((), tuple(each.groups)) for name, each in found.items()}
        return Layouts({}, layouts)
    paths = {name: files[name][1].path for name in names}
    types = _common_types(logs.columns, found, paths)
    return Layouts(
        types,
        {
            name: FileLayout(
                tuple(column for column in types if column in each.types), tuple(each.groups)
            )
            for name, each in found.items()
        },
    )


def _layout(location: Location, planned: PlannedFile) -> ColumnLayout:
    if planned.kind == _RECORDIO:
        return ColumnLayout({}, _recordio_groups(location, planned.end), pa.schema([]))
    return column_layout(location, str(planned.kind), planned.end)


def _common_types(
    wanted: Sequence[str] | None, found: Mapping[str, ColumnLayout], paths: Mapping[str, str]
) -> dict[str, pa.DataType]:
    """Return the type of each column that is read, in the order of the specification or files."""
    seen = dict.fromkeys(column for each in found.values() for column in each.types)
    if found and (missing := [column for column in wanted or () if column not in seen]):
        near = get_close_matches(missing[0], seen, _MOST_FOUND, cutoff=0.0)
        raise ConfigError(
            f"expected the columns {missing} of source.logs.columns in a file of the interval, got"
            f" files with {', '.join(map(repr, near)) or 'no columns'} and others; nothing was read"
            " or published; correct source.logs.columns"
        )
    types: dict[str, pa.DataType] = {}
    for column in seen if wanted is None else wanted:
        types[column] = _common_type(column, found, paths)
    return types


def _common_type(
    column: str, found: Mapping[str, ColumnLayout], paths: Mapping[str, str]
) -> pa.DataType:
    kind: pa.DataType | None = None
    first = ""
    for source, layout in found.items():
        if column not in layout.types:
            continue
        own = layout.types[column]
        if own is None:
            raise ConfigError(
                f"column {column!r} of {paths[source]} has a type that is not read; nothing was"
                " read or published; name the other columns in source.logs.columns, or cast it"
            )
        both = own if kind is None else widened(kind, own)
        if both is None:
            raise FormatError(
                f"expected column {column!r} in types of which one holds the values of both, got"
                f" {kind} in {paths[first]} and {own} in {paths[source]}; nothing was read or"
                " published; write one of the files again, or leave the column out of"
                " source.logs.columns"
            )
        first = source if kind is None or not both.equals(kind) else first
        kind = both
    return pa.null() if kind is None else kind


# --- The records of a range, as landing records


@dataclass(frozen=True)
class RowRange:
    """A range of bytes of a file; its rows are those of the groups that begin in it.

    Attributes:
        location: The file.
        file_format: Its format, as a specification names it.
        source: Source string of the file.
        size_bytes: Length of the file.
        start: First byte of the range.
        end: Byte behind it.
        timestamp_ms: Timestamp of every record, because a row has no time of its own.
        told_by: What says which format and columns the file has, for messages.
    """

    location: Location
    file_format: str
    source: str
    size_bytes: int
    start: int
    end: int
    timestamp_ms: int
    told_by: str = "source.logs"


def iter_rows(
    span: RowRange, layouts: Layouts | None, columns: Sequence[str] | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range, by ascending number.

    Args:
        span: The range.
        layouts: The layouts of the plan; None if they are not known: types are then those of the
            file itself.
        columns: The columns of the specification; None for all.

    Returns:
        Batches of ``LANDING_SCHEMA``, with a further column ``fields`` for files of columns; at
        least one row each; they stay valid. The offset is the number of the row in its file.

    Raises:
        SourceReplacedError: The file has other groups of rows than when it was planned.
        FormatError: The file is damaged, cut or of another format.
        StorageError: The file cannot be read.
    """
    own = None if layouts is None else layouts.files.get(span.source)
    groups = None if own is None else own.groups
    if span.file_format == _RECORDIO:
        return _iter_recordio(span, groups)
    if span.file_format == _TFRECORD:
        return _iter_tfrecord(span)
    if layouts is None:
        found = column_layout(span.location, span.file_format, span.size_bytes)
        types = _common_types(columns, {span.source: found}, {span.source: span.location.uri})
    else:
        types = dict(layouts.types)
    return iter_columns(
        ColumnRange(
            location=span.location,
            file_format=span.file_format,
            size_bytes=span.size_bytes,
            start=span.start,
            end=span.end,
            timestamp_ms=span.timestamp_ms,
            types=types,
            groups=groups,
            stored=None if own is None else own.stored,
            told_by=span.told_by,
        )
    )


# --- Records of RecordIO and TFRecord: values of bytes, each with its number in the file

# About the bytes of a batch, and its most records.
_BATCH_BYTES: Final = 8 << 20
_BATCH_RECORDS: Final = 16_384


def _recordio_groups(location: Location, file_bytes: int) -> list[RowGroup]:
    with _opened(location, _RECORDIO) as file:
        chunks = RecordIndex.load(file).chunks
        return groups_of(((each.offset_bytes, each.num_records) for each in chunks), file_bytes)


def _iter_recordio(span: RowRange, groups: Sequence[RowGroup] | None) -> Iterator[pa.RecordBatch]:
    with _opened(span.location, _RECORDIO) as file:
        chunks = RecordIndex.load(file).chunks
        parts = ((each.offset_bytes, each.num_records) for each in chunks)
        found = groups_of(parts, span.size_bytes)
        require_groups(span.location, groups, found)
        buffers = ChunkBuffers()
        for chunk, group in zip(chunks, found, strict=True):
            if span.start <= group.first_byte < span.end:
                framing = read_chunk(file, chunk, buffers=buffers)
                records = map(bytes, split_records(framing, chunk.num_records))
                yield from _batches(records, group.first_row, span.timestamp_ms)


def _iter_tfrecord(span: RowRange) -> Iterator[pa.RecordBatch]:
    with _opened(span.location, _TFRECORD) as file:
        yield from _batches(iter_records(file), 0, span.timestamp_ms)


@contextmanager
def _opened(location: Location, file_format: str) -> Iterator[BinaryIO]:
    with closing(location.open_read()) as file:
        try:
            yield file
        except FormatError as error:
            raise unreadable(location, file_format, file, error) from error


def _batches(
    records: Iterable[bytes], first_row: int, timestamp_ms: int
) -> Iterator[pa.RecordBatch]:
    values, num_bytes = list[bytes](), 0
    for record in records:
        values.append(record)
        num_bytes += len(record)
        if len(values) >= _BATCH_RECORDS or num_bytes >= _BATCH_BYTES:
            yield _landed(values, first_row, timestamp_ms)
            first_row += len(values)
            values, num_bytes = [], 0
    if values:
        yield _landed(values, first_row, timestamp_ms)


def _landed(values: list[bytes], first_row: int, timestamp_ms: int) -> pa.RecordBatch:
    count = len(values)
    columns = {
        "offset": pa.array(np.arange(first_row, first_row + count, dtype=np.int64)),
        "timestamp": pa.array(np.full(count, timestamp_ms, np.int64)),
        "timestamp_type": pa.array(np.zeros(count, np.int8)),
        "value": pa.array(values, pa.binary()),
    }
    for name in ("key", "headers"):
        columns[name] = pa.nulls(count, LANDING_SCHEMA.field(name).type)
    return pa.RecordBatch.from_arrays(
        [columns[name] for name in LANDING_SCHEMA.names], schema=LANDING_SCHEMA
    )


# --- The first rows of a file, copied for a preview


def copy_head(path: Path, span: RowRange, logs: LogsSourceSpec, limit: int) -> int:
    """Copy the first records of a file into a file of the same format; return their number.

    Args:
        path: The copy.
        span: The whole file.
        logs: The specification of the source.
        limit: The most records.

    Raises:
        FormatError: The file is damaged, cut or of another format.
        StorageError: The file cannot be read.
    """
    if span.file_format == _AVRO:
        with path.open("wb") as target:
            return copy_avro_head(span.location, span.size_bytes, target, limit)
    batches, left = list[pa.RecordBatch](), limit
    with closing(_rows(span, logs)) as rows:
        for batch in rows:
            batches.append(batch.slice(0, left))
            left -= batches[-1].num_rows
            if not left:
                break
    if logs.has_columns:
        _write_columns(path, batches, span, logs)
    else:
        values = [value for batch in batches for value in batch.column("value").to_pylist()]
        with _WRITERS[span.file_format](path) as writer:
            for value in values:
                writer.write(value)
    return limit - left


def _rows(span: RowRange, logs: LogsSourceSpec) -> Generator[pa.RecordBatch]:
    yield from iter_rows(span, None, logs.columns)


def _write_columns(
    path: Path, batches: Sequence[pa.RecordBatch], span: RowRange, logs: LogsSourceSpec
) -> None:
    if batches:
        table = pa.Table.from_batches(
            [pa.RecordBatch.from_struct_array(batch.column(FIELDS)) for batch in batches]
        )
    else:
        found = column_layout(span.location, span.file_format, span.size_bytes)
        types = _common_types(logs.columns, {span.source: found}, {span.source: span.source})
        table = pa.schema(list(types.items())).empty_table()
    if span.file_format == "parquet":
        pq.write_table(table, path)
    elif span.file_format == "orc":
        orc.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)


_WRITERS: Final = {_RECORDIO: RecordWriter, _TFRECORD: TFRecordWriter}


# --- The range in which a row is read


def piece_with(
    folder: DatasetFolder | None,
    plan: Plan,
    source: str,
    offset: int,
    pieces: Sequence[PlannedRange],
) -> PlannedRange | None:
    """Return the range in which a record is read; None if no range has it.

    Args:
        folder: The data set below the publication root; None for a plan without layouts.
        plan: The plan.
        source: Source string of a partition, or of a file that is read in pieces.
        offset: Offset of the record.
        pieces: The ranges of the source, ascending.

    Raises:
        NotFoundError, FormatError: The layouts of the plan are gone or damaged.
    """
    planned = plan.inputs.get(source)
    layouts = None
    if folder is not None and isinstance(planned, PlannedFile):
        layouts = kept_layouts(folder, planned)
    if layouts is not None:
        # Rows are counted, and ranges are bytes.
        groups = layouts.files[split_member(source)[1]].groups
        held = (g.first_byte for g in groups if g.first_row <= offset < g.first_row + g.num_rows)
        offset = next(held, -1)
    number = bisect_right(pieces, offset, key=lambda piece: piece.start) - 1
    found = pieces[number] if number >= 0 else None
    return found if found is not None and offset < found.end else None

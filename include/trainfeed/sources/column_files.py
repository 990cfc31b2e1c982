"""Files of rows with typed fields, group by group, with only the fields that are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from trainfeed.errors import FormatError, SourceReplacedError
from trainfeed.files.stores import Location
from trainfeed.preprocessing.column_types import column_as_read, type_as_read
from trainfeed.preprocessing.source_record import FIELDS
from trainfeed.sources.avro_files import AvroFile
from trainfeed.sources.column_footers import RowGroup, arrow_groups, groups_of, orc_groups
from trainfeed.sources.landing import BATCH_ROWS, LANDING_SCHEMA
from trainfeed.sources.log_folders import HEAD_BYTES, format_of_bytes, name_of_format, setting_for

# --- Three of the formats: their columns, and the groups in which they keep their rows

_OF_LOGS: Final = "source.logs"
# About the decoded bytes of a batch, and of what is read at once of all columns. A batch is in
# memory several times on its way to the function; larger ones are read no faster.
_BATCH_BYTES: Final = 2 << 20
_READ_BYTES: Final = 16 << 20
_LEAST_READ_BYTES, _MOST_READ_BYTES = 64 << 10, 1 << 20


class _ColumnFile(Protocol):
    """An open file of columns.

    Attributes:
        schema: Names and types of the columns as they are stored.
        groups: The groups of rows, in order of the rows.
    """

    schema: pa.Schema
    groups: list[RowGroup]

    def iter_group(self, number: int, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a group, with at least the named columns.

        Args:
            number: Index into ``groups``.
            names: Names of columns of the file; at least one.
        """


class _Parquet:
    """A Parquet file: of a group of any size, a batch and a part of each column are in memory."""

    def __init__(self, file: BinaryIO, file_bytes: int) -> None:
        self._file = file
        parquet = pq.ParquetFile(file, pre_buffer=False)
        self.schema: pa.Schema = parquet.schema_arrow
        self._metadata = parquet.metadata
        groups = map(self._metadata.row_group, range(self._metadata.num_row_groups))
        self.groups = groups_of(((_first_byte(g), g.num_rows) for g in groups), file_bytes)

    def iter_group(self, number: int, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield batches of about 2 MiB."""
        stored = self._metadata.row_group(number)
        mean_bytes = max(1, stored.total_byte_size // stored.num_rows)
        at_once = _READ_BYTES // len(names)
        parquet = pq.ParquetFile(
            self._file,
            metadata=self._metadata,
            # Without these two, whole columns of a group are read before the first row.
            pre_buffer=False,
            buffer_size=max(_LEAST_READ_BYTES, min(_MOST_READ_BYTES, at_once)),
            page_checksum_verification=True,
        )
        yield from parquet.iter_batches(
            batch_size=max(1, min(BATCH_ROWS, _BATCH_BYTES // mean_bytes)),
            row_groups=[number],
            columns=list(names),
            use_threads=False,
        )


def _first_byte(group: Any) -> int:
    """Return where the first page of any column of a row group begins."""
    columns = [group.column(number) for number in range(group.num_columns)]
    pages = [
        page
        for each in columns
        for page in (each.dictionary_page_offset, each.data_page_offset)
        if page is not None and page > 0
    ]
    return min(pages, default=0)


class _Orc:
    """An ORC file: a stripe is decoded as a whole."""

    def __init__(self, file: BinaryIO, file_bytes: int) -> None:
        self.groups = orc_groups(file, file_bytes)
        self._file = orc.ORCFile(file)
        self.schema: pa.Schema = self._file.schema
        if self._file.nstripes != len(self.groups):
            raise FormatError(f"expected {self._file.nstripes} stripes, got {len(self.groups)}")

    def iter_group(self, number: int, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a stripe, in parts."""
        yield from _parts(self._file.read_stripe(number, columns=list(names)))


class _Arrow:
    """An Arrow file: a batch is read as a whole, but only its columns that are needed."""

    def __init__(self, file: BinaryIO, file_bytes: int) -> None:
        self._file = file
        self.groups = arrow_groups(file, file_bytes)
        reader = pa.ipc.open_file(file)
        self.schema: pa.Schema = reader.schema
        if reader.num_record_batches != len(self.groups):
            found = reader.num_record_batches
            raise FormatError(f"expected {found} batches, got {len(self.groups)}")

    def iter_group(self, number: int, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a batch, in parts."""
        fields = [self.schema.get_field_index(name) for name in names]
        options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
        yield from _parts(pa.ipc.open_file(self._file, options=options).get_batch(number))


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, BATCH_ROWS):
        yield batch.slice(start, BATCH_ROWS)


_FORMATS: Final[Mapping[str, Callable[[BinaryIO, int], _ColumnFile]]] = {
    "parquet": _Parquet,
    "orc": _Orc,
    "arrow": _Arrow,
    "avro": AvroFile,
}


# --- Reads them: their layout for a plan, and the rows of a range as landing records with fields


@dataclass(frozen=True)
class ColumnLayout:
    """The columns of a file, and where its groups of rows lie.

    Attributes:
        types: Name of each column → its type as a reader gives it; None for one that no reader
            gives.
        groups: The groups of rows, in order of the rows.
        schema: The columns as they are stored, with their metadata.
    """

    types: Mapping[str, pa.DataType | None]
    groups: Sequence[RowGroup]
    schema: pa.Schema


@dataclass(frozen=True)
class ColumnRange:
    """A range of bytes of a file of columns; its rows are those of the groups that begin in it.

    Attributes:
        location: The file.
        file_format: ``parquet``, ``orc``, ``arrow`` or ``avro``.
        size_bytes: Length of the file.
        start: First byte of the range.
        end: Byte behind it.
        timestamp_ms: Timestamp of every record, because a row has no time of its own.
        types: Name → type of the columns that are read, in their order; the file may lack some.
        groups: The groups of rows that the plan has seen; None without a plan.
        stored: Name in ``types`` → name in the file, None for a column that is null in all of its
            rows; None where files have the names of ``types``, and those that lack one lack it.
        told_by: What says which format and columns the file has, for messages.
    """

    location: Location
    file_format: str
    size_bytes: int
    start: int
    end: int
    timestamp_ms: int
    types: Mapping[str, pa.DataType]
    groups: Sequence[RowGroup] | None = None
    stored: Mapping[str, str | None] | None = None
    told_by: str = _OF_LOGS


def column_layout(
    location: Location, file_format: str, size_bytes: int, told_by: str = _OF_LOGS
) -> ColumnLayout:
    """Return the layout of a file.

    Only its footer is read, for Arrow the head of each batch, for Avro that of each block.

    Args:
        location: The file.
        file_format: ``parquet``, ``orc``, ``arrow`` or ``avro``.
        size_bytes: Length of the file.
        told_by: What says which format the file has, for messages.

    Raises:
        FormatError: The file is of another format, damaged or cut, or has a column twice.
        StorageError: The file cannot be read.
    """
    with closing(location.open_read()) as file, _readable(location, file_format, file, told_by):
        found = _FORMATS[file_format](file, size_bytes)
        names = found.schema.names
        if len(set(names)) < len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise FormatError(f"expected each column once, got {twice} twice")
        types = {field.name: type_as_read(field.type) for field in found.schema}
        return ColumnLayout(types, found.groups, found.schema)


def copy_avro_head(location: Location, size_bytes: int, target: BinaryIO, most_records: int) -> int:
    """Write an Avro file with the first records of another one; return their number.

    Raises:
        FormatError: The file is of another format, damaged or cut.
        StorageError: The file cannot be read.
    """
    with closing(location.open_read()) as file, _readable(location, "avro", file):
        return AvroFile(file, size_bytes).copy_head(target, most_records)


def iter_columns(span: ColumnRange) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the groups that begin in the range, by ascending number of the row.

    Returns:
        Batches of ``LANDING_SCHEMA`` with a further column ``fields``, 1 to ``BATCH_ROWS`` rows
        each; the offset is the number of the row in its file, the value null. They stay valid.

    Raises:
        SourceReplacedError: The file has other groups than the plan has seen.
        FormatError: The file is of another format, damaged or cut, or a value is lost on the way to
            the type of its column.
        StorageError: The file cannot be read.
    """
    location = span.location
    kind, told_by = span.file_format, span.told_by
    with closing(location.open_read()) as file, _readable(location, kind, file, told_by):
        found = _FORMATS[kind](file, span.size_bytes)
        require_groups(location, span.groups, found.groups)
        stored = _stored(span, found.schema.names)
        for number, group in enumerate(found.groups):
            if group.num_rows and span.start <= group.first_byte < span.end:
                yield from _iter_group(found, number, stored, span)


def _stored(span: ColumnRange, names: Sequence[str]) -> Mapping[str, str | None]:
    """Return name of a column that rows have → name in the file; None for nulls.

    Raises:
        FormatError: The file has none of the columns, or lacks one that it had.
    """
    stored: Mapping[str, str | None] = {name: name for name in span.types if name in names}
    if span.stored is not None:
        stored = span.stored
    if not stored or {*stored.values()} - {*names, None}:
        raise FormatError(f"expected columns {[*span.types]}, got {[*names]}")
    return stored


def require_groups(
    location: Location, planned: Sequence[RowGroup] | None, found: Sequence[RowGroup]
) -> None:
    """Refuse a file whose groups of rows are not those that were planned; None is no plan.

    Raises:
        SourceReplacedError: They differ.
    """
    if planned is not None and list(planned) != list(found):
        raise SourceReplacedError(
            f"{location.uri} has other groups of rows than when it was planned; nothing was"
            " published; run the build again to build from what is there now"
        )


def _iter_group(
    file: _ColumnFile, number: int, stored: Mapping[str, str | None], span: ColumnRange
) -> Iterator[pa.RecordBatch]:
    group = file.groups[number]
    row = group.first_row
    types = [(own, span.types[name]) for name, own in stored.items()]
    fields = [pa.field(name, span.types[name]) for name in stored]
    # Where all columns are null, one of the others says how many rows there are.
    wanted = [own for own in stored.values() if own is not None] or file.schema.names[:1]
    for batch in file.iter_group(number, wanted):
        # Arrow trusts offsets and lengths in a file: damaged ones would crash the process later.
        batch.validate(full=True)
        columns = [_as_read(batch, own, kind, span) for own, kind in types]
        struct = pa.StructArray.from_arrays(columns, fields=fields)
        yield _landed(struct, row, span.timestamp_ms)
        row += batch.num_rows
    if row != group.first_row + group.num_rows:
        raise FormatError(f"expected {group.num_rows} rows, got {row - group.first_row}")


def _as_read(
    batch: pa.RecordBatch, name: str | None, kind: pa.DataType, span: ColumnRange
) -> pa.Array:
    if name is None:
        return pa.nulls(batch.num_rows, kind)
    try:
        return column_as_read(batch.column(name), kind)
    except pa.ArrowInvalid as error:
        raise FormatError(
            f"column {name!r} of {batch.schema.field(name).type} is not read as {kind} without"
            f" loss: {error}; nothing was published; cast it in the file, or leave it out of"
            f" {span.told_by}.columns",
            path=span.location.uri,
        ) from error


def _landed(fields: pa.StructArray, first_row: int, timestamp_ms: int) -> pa.RecordBatch:
    count = len(fields)
    columns = {
        "offset": pa.array(np.arange(first_row, first_row + count, dtype=np.int64)),
        "timestamp": pa.array(np.full(count, timestamp_ms, np.int64)),
        "timestamp_type": pa.array(np.zeros(count, np.int8)),
        FIELDS: fields,
    }
    for name in ("key", "value", "headers"):
        columns[name] = pa.nulls(count, LANDING_SCHEMA.field(name).type)
    schema = LANDING_SCHEMA.append(pa.field(FIELDS, fields.type))
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


@contextmanager
def _readable(
    location: Location, file_format: str, file: BinaryIO, told_by: str = _OF_LOGS
) -> Iterator[None]:
    """Raise what damaged bytes cause as FormatError with the file."""
    try:
        yield
    except (FormatError, pa.ArrowException, OSError, EOFError, UnicodeError) as error:
        # An error with errno comes from the operating system, and does not mean damaged bytes.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        if isinstance(error, FormatError) and error.path is not None:
            raise
        raise unreadable(location, file_format, file, error, told_by) from error


def unreadable(
    location: Location,
    file_format: str,
    file: BinaryIO,
    error: Exception,
    told_by: str = _OF_LOGS,
) -> FormatError:
    """Return the error for a file that is damaged, cut, or of another format, with its path.

    Args:
        location: The file.
        file_format: The format of the specification.
        file: The open file.
        error: What reading it raised.
        told_by: What says which format the file has.
    """
    file.seek(0)
    wanted, found = name_of_format(file_format), format_of_bytes(file.read(HEAD_BYTES))
    kind = type(error) if isinstance(error, FormatError) else FormatError
    said = f"as {told_by}.format says" if told_by == _OF_LOGS else f"as {told_by} says"
    if found in {None, wanted}:
        return kind(
            f"expected {wanted}, {said}, that is whole: {error}; nothing was published; write the"
            " file again",
            path=location.uri,
        )
    return kind(
        f"expected {wanted}, {said}, got {found}, as the first bytes say; nothing was published;"
        f" {setting_for(found)}move it out of the folder",
        path=location.uri,
    )

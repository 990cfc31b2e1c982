"""Parquet and Arrow files ↔ typed samples, a batch at a time; columns ↔ fields."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, BinaryIO, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from trainfeed.conversion.arrow_json import (
    is_binary,
    is_list,
    is_text,
    is_time,
    json_texts,
    plain,
    require_json,
)
from trainfeed.conversion.foreign_input import open_input
from trainfeed.errors import ConfigError, FormatError, TruncatedError
from trainfeed.files import FilePath
from trainfeed.samples import Field, Schema, masked_rows
from trainfeed.samples.arrow import METADATA, arrow_schema

# --- Columns of Parquet and Arrow files ↔ fields of typed samples

Place: TypeAlias = tuple[int, ...]

_TEXTS: Final = ("bytes", "str")


@dataclass(frozen=True)
class ColumnOptions:
    """Conversion of columns that have no matching field.

    Attributes:
        flatten: Names of structs whose parts become fields: ``image`` with ``bytes`` and ``path``
            becomes ``image.bytes`` and ``image.path``. Structs inside them are flattened too.
        as_json: Names of columns of any type, and of parts of flattened structs, that become
            fields of JSON text, in the form of ``trainfeed.conversion.arrow_json``.
        renames: Pairs of the name of a column, or of a part of a flattened struct, and the name of
            its field. They hold for columns of CSV, too.
    """

    flatten: tuple[str, ...] = ()
    as_json: tuple[str, ...] = ()
    renames: tuple[tuple[str, str], ...] = ()

    def field_names(self, columns: Sequence[str]) -> list[str]:
        """Return the names of the fields of columns.

        Raises:
            ConfigError: A column that is to be renamed is not there.
        """
        new = dict(self.renames)
        if missing := new.keys() - set(columns):
            raise ConfigError(
                f"expected columns to rename, got {sorted(missing)}; the file has {list(columns)}"
            )
        return [new.get(name, name) for name in columns]


def renames_of(pairs: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return the renames that texts like ``user id=user`` ask for.

    Raises:
        ConfigError: A text has another form, or a column is renamed twice.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        # A column may have = in its name, a field may not.
        old, _, new = pair.rpartition("=")
        if not (old and new) or old in found:
            raise ConfigError(f"expected OLD=NEW, each column once, got {pair!r:.200}")
        found[old] = new
    return tuple(found.items())


@dataclass(frozen=True)
class TableColumn:
    """One field of the samples, and its column in the table.

    Attributes:
        field: The field.
        place: Number of the column, then of the part of the struct, and so on inwards.
        kind: Type of the column.
        is_json: Whether values become JSON text.
    """

    field: Field
    place: Place
    kind: pa.DataType
    is_json: bool = False

    @property
    def is_time(self) -> bool:
        """Whether the values are dates or times, in the unit of the column."""
        return is_time(self.kind) and not self.is_json

    def of(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the values of the field in a batch; parts of a null struct are null."""
        column, *parts = self.place
        values = batch.column(column)
        for part in parts:
            values = values.flatten()[part]
        return values


def columns_of(
    columns: pa.Schema, nulls: Callable[[], Set[Place] | None], options: ColumnOptions
) -> tuple[TableColumn, ...]:
    """Return the fields for the columns of a file.

    Args:
        columns: The columns.
        nulls: Function that returns the places of columns (for structs, of their parts) that may
            hold a null; None if unknown. Not called for a file that has its schema.
        options: How columns without a matching field are converted.

    Raises:
        ConfigError: A column has a type that samples do not have, or an option names no column.
        FormatError: The metadata have no valid schema, or one that does not match the columns.
    """
    stored = (columns.metadata or {}).get(METADATA)
    if stored is not None:
        if options != ColumnOptions():
            raise ConfigError(
                "expected no columns to flatten, to turn into JSON or to rename for a file that"
                " carries a schema of trainfeed; leave these options out"
            )
        schema = _stored_schema(columns, stored)
        return tuple(
            TableColumn(field, (number,), columns.field(number).type)
            for number, field in enumerate(schema)
        )
    wanted = _Wanted(options, nulls())
    found = tuple(
        each for number, column in enumerate(columns) for each in wanted.fields(column, (number,))
    )
    wanted.require_used(columns.names)
    return found


def _stored_schema(columns: pa.Schema, stored: bytes) -> Schema:
    try:
        schema = Schema.from_json(json.loads(stored))
    except ValueError as error:
        raise FormatError(f"the metadata hold no schema: {error}") from error
    expected = arrow_schema(schema)
    if not expected.equals(columns, check_metadata=False):
        raise FormatError(
            f"the metadata of the file describe the columns {expected.names}, the file has"
            f" {columns.names}"
        )
    return schema


class _Wanted:
    """Makes fields from columns, and notes the names in the options that were found."""

    def __init__(self, options: ColumnOptions, nulls: Set[Place] | None) -> None:
        self._options = options
        self._nulls = nulls
        self._renames = dict(options.renames)
        self._used: set[str] = set()
        self._renamed: set[str] = set()

    def fields(self, column: pa.Field, place: Place) -> Iterator[TableColumn]:
        """Yield the fields of a column."""
        name, kind = column.name, column.type
        if name in self._options.as_json:
            self._used.add(name)
            require_json(name, kind)
            field = Field(self._name(name), "str", (), self._optional(column, place))
            yield TableColumn(field, place, kind, is_json=True)
        elif pa.types.is_struct(kind) and name in self._options.flatten:
            self._used.add(name)
            yield from self._parts(column, place)
        else:
            dtype, shape = _dtype_and_shape(name, kind)
            field = Field(self._name(name), dtype, shape, self._optional(column, place))
            yield TableColumn(field, place, kind)

    def _name(self, column: str) -> str:
        self._renamed.add(column)
        return self._renames.get(column, column)

    def _parts(self, column: pa.Field, place: Place) -> Iterator[TableColumn]:
        for number in range(column.type.num_fields):
            part = column.type.field(number)
            name, nullable = f"{column.name}.{part.name}", column.nullable or part.nullable
            named = pa.field(name, part.type, nullable)
            if pa.types.is_struct(part.type) and name not in self._options.as_json:
                yield from self._parts(named, (*place, number))
            else:
                yield from self.fields(named, (*place, number))

    def require_used(self, names: list[str]) -> None:
        """Check that every name in the options was found."""
        unused = {*self._options.flatten, *self._options.as_json} - self._used
        unused |= self._renames.keys() - self._renamed
        if unused:
            raise ConfigError(
                "expected structs to flatten, columns to make JSON and columns to rename, got"
                f" {sorted(unused)}; the file has {names}"
            )

    def _optional(self, column: pa.Field, place: Place) -> bool:
        if self._nulls is None or not column.nullable:
            return bool(column.nullable)
        return any(each[: len(place)] == place for each in self._nulls)


def _dtype_and_shape(name: str, column: pa.DataType) -> tuple[str, tuple[int | None, ...]]:
    kind, shape = column, list[int | None]()
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        kind = kind.value_type
    while is_list(kind):
        shape.append(kind.list_size if pa.types.is_fixed_size_list(kind) else None)
        kind = kind.value_type
    dtype = _dtype_of(kind)
    if dtype is None or None in shape[1:] or (shape and dtype in _TEXTS):
        remedy = _json_remedy(name, column)
        if pa.types.is_struct(column):
            first = column.field(0).name if column.num_fields else "…"
            remedy = f"--flatten {name} makes the fields {name}.{first}, …; {remedy}"
        raise ConfigError(
            f"column {name!r}: a sample cannot hold {column}; {remedy}cast the column or leave it"
            " out first"
        )
    return dtype, tuple(shape)


def _json_remedy(name: str, column: pa.DataType) -> str:
    try:
        require_json(name, column)
    except ConfigError:
        return ""
    return f"--json-columns {name} makes JSON text of it; or "


def _dtype_of(kind: pa.DataType) -> str | None:
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return "bool" if pa.types.is_boolean(kind) else str(np.dtype(kind.to_pandas_dtype()))
    if is_text(kind):
        return "str"
    if is_binary(kind):
        return "bytes"
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return "int32"
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind) or pa.types.is_date64(kind):
        return "int64"
    return None


# --- Arrow IPC in its stream format, which ``save_to_disk`` of Hugging Face and Arrow Flight write

_CONTINUES: Final = b"\xff\xff\xff\xff"
# A schema takes a few bytes per column; a larger number is not a length.
_MAX_SCHEMA_BYTES: Final = 64 << 20


def begins_stream(head: bytes) -> bool:
    """Return whether a file begins like a stream: a mark, then the length of the schema."""
    num_bytes = int.from_bytes(head[4:8], "little")
    return head[:4] == _CONTINUES and 0 < num_bytes <= _MAX_SCHEMA_BYTES and not num_bytes % 8


class ArrowStream:
    """An open file in the stream format.

    Args:
        file: The file; read from its start.

    Attributes:
        schema: Schema of the columns.

    Raises:
        TruncatedError: The file ends inside the schema.
        FormatError: The file does not begin with a schema.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = _Rest(file)
        self._reader = self._told(0, lambda: pa.ipc.open_stream(self._file))
        self.schema: pa.Schema = self._reader.schema

    def iter_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches, once; one batch is in memory at a time.

        Raises:
            TruncatedError: The file ends inside a batch, or before the end mark; has the offset.
            FormatError: A batch is damaged, or bytes follow the end mark; has the offset.
        """
        while True:
            start = self._file.tell()
            batch = self._told(start, lambda: next(self._reader, None))
            if batch is None:
                self._require_end()
                return
            yield batch

    def _told(self, start: int, read: Any) -> Any:
        """Return the result of ``read``; errors of pyarrow get the offset of the message."""
        try:
            return read()
        except (pa.ArrowException, OSError, EOFError) as error:
            kind = TruncatedError if self._file.is_at_end() else FormatError
            what = "ends within" if kind is TruncatedError else "is damaged in"
            raise kind(
                f"the Arrow stream {what} the message that begins here: {error}", offset_bytes=start
            ) from error

    def _require_end(self) -> None:
        end = self._file.tell()
        # The end mark is the length 0, without a mark before it in streams of Arrow before 0.15.
        # The last read shows it; the last bytes of the file would not do, because the data of a
        # dictionary batch may end with the same bytes.
        if self._file.last_read != bytes(4):
            raise TruncatedError(
                "expected the mark at the end of the Arrow stream, got the end of the file: batches"
                " may be missing; write it again, and close the writer",
                offset_bytes=end,
            )
        if not self._file.is_at_end():
            raise FormatError(
                "expected the end of the file after the end of the Arrow stream; one file holds one"
                " stream",
                offset_bytes=end,
            )


class _Rest:
    """A file that limits reads to its size: a damaged length must not allocate memory."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._num_bytes = os.fstat(file.fileno()).st_size
        self.last_read = b""

    def read(self, num_bytes: int) -> bytes:
        self.last_read = self._file.read(max(0, min(num_bytes, self._num_bytes - self.tell())))
        return self.last_read

    def tell(self) -> int:
        return self._file.tell()

    def is_at_end(self) -> bool:
        return self.tell() >= self._num_bytes

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def writable(self) -> bool:
        return False


# --- Parquet and Arrow files ↔ typed samples, a batch at a time

PARQUET_MAGIC: Final = b"PAR1"
ORC_MAGIC: Final = b"ORC"
_FILE_MAGIC: Final = b"ARROW1"
# A look at a file begins with few rows: those of a table of images take a megabyte each.
_LOOK_ROWS: Final = 256
_BATCH_ROWS: Final = 4096
_BATCH_BYTES: Final = 8 << 20
_DEFAULTS: Final = ColumnOptions()


class ArrowTable:
    """The rows of an open file.

    Attributes:
        schema: Schema of the samples.
    """

    def __init__(
        self,
        columns: tuple[TableColumn, ...],
        batches: Iterator[pa.RecordBatch],
        path: FilePath,
        num_rows: int | None = None,
    ) -> None:
        self.schema = Schema(tuple(each.field for each in columns))
        self._columns = columns
        self._num_rows = num_rows
        self._batches = batches
        self._path = path

    def count_rows(self) -> int:
        """Return the number of rows; if the file does not state it, the rows are read and used up.

        Raises:
            FormatError: The file is damaged.
        """
        if self._num_rows is not None:
            return self._num_rows
        with _arrow_errors(self._path):
            return sum(batch.num_rows for batch in self._batches)

    @property
    def times(self) -> dict[str, str]:
        """Field → type of its column, for dates and times."""
        return {each.field.name: str(each.kind) for each in self._columns if each.is_time}

    def require_no_times(self, schema: Schema) -> None:
        """Refuse columns of times for fields of numbers: nothing says in which unit these are.

        Raises:
            ConfigError: There is one.
        """
        for column in self._columns:
            name = column.field.name
            if column.is_time and name in schema.names:
                raise ConfigError(
                    f"column {name!r}: expected {schema[name].dtype}, got {column.kind}, whose"
                    " values are numbers in a unit that the field does not name; cast the column to"
                    f" {schema[name].dtype} first"
                )

    def iter_columns(self) -> Iterator[dict[str, Any]]:
        """Yield blocks as field → array; for schemas of fixed size.

        Raises:
            FormatError: The file is damaged, or a value does not match the schema.
        """
        for batch in self._iter_batches():
            yield {
                each.field.name: _column_to_numpy(each.field, each.of(batch), self._path)
                for each in self._columns
            }

    def iter_samples(self) -> Iterator[dict[str, Any]]:
        """Yield the samples in the form that ``TypedCodec.encode`` takes.

        Raises:
            FormatError: The file is damaged.
        """
        names = self.schema.names
        for batch in self._iter_batches():
            columns = [_values(each, batch, self._path) for each in self._columns]
            for values in zip(*columns, strict=True):
                yield dict(zip(names, values, strict=True))

    def _iter_batches(self) -> Iterator[pa.RecordBatch]:
        with _arrow_errors(self._path):
            num_rows = 0
            for batch in self._batches:
                # Arrow trusts offsets and lengths in a file: damaged ones would crash the process
                # later.
                batch.validate(full=True)
                yield batch
                num_rows += batch.num_rows
            if self._num_rows not in {None, num_rows}:
                raise FormatError(f"expected {self._num_rows} rows, got {num_rows}")


@contextmanager
def open_parquet(path: FilePath, *, options: ColumnOptions = _DEFAULTS) -> Iterator[ArrowTable]:
    """Open a Parquet file; a batch of rows is decoded at a time.

    Checksums of pages are verified if the file has them; files of ``write_parquet`` have them.

    Args:
        path: The file.
        options: How columns without a matching field are converted.

    Raises:
        FormatError: The file is damaged.
        ConfigError: A column has a type that samples do not have.
    """
    with open_input(path) as file, _arrow_errors(path):
        parquet = pq.ParquetFile(file, pre_buffer=False, page_checksum_verification=True)
        columns = columns_of(parquet.schema_arrow, partial(_places_with_nulls, parquet), options)
        batches = parquet.iter_batches(batch_size=_BATCH_ROWS, use_threads=False)
        yield ArrowTable(columns, batches, path, parquet.metadata.num_rows)


@contextmanager
def open_arrow(path: FilePath, *, options: ColumnOptions = _DEFAULTS) -> Iterator[ArrowTable]:
    """Open a file of Arrow IPC, in the file format or in the stream format.

    The first bytes of the file tell the format. One batch of the file is in memory at a time.

    Args:
        path: The file.
        options: How columns without a matching field are converted.

    Raises:
        FormatError: The file is damaged.
        TruncatedError: A stream ends early, or without its end mark.
        ConfigError: A column has a type that samples do not have.
    """
    with open_input(path) as file, _arrow_errors(path):
        columns, batches = _columns_and_batches(file)
        yield ArrowTable(columns_of(columns, lambda: None, options), batches, path)


@contextmanager
def open_batches(path: FilePath) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """Open a file of Parquet, ORC or Arrow, which its first bytes tell, for its columns as stored.

    Yields:
        The columns, and their batches; one is in memory at a time, of ORC a stripe.

    Raises:
        FormatError: The file is damaged, here or in a later batch.
    """
    with open_input(path) as file, _arrow_errors(path):
        head = file.read(len(_FILE_MAGIC))
        file.seek(0)
        if head.startswith(ORC_MAGIC):
            from pyarrow import orc

            stripes = orc.ORCFile(file)
            yield stripes.schema, map(stripes.read_stripe, range(stripes.nstripes))
        elif head.startswith(PARQUET_MAGIC):
            parquet = pq.ParquetFile(file, pre_buffer=False, page_checksum_verification=True)
            yield (
                parquet.schema_arrow,
                parquet.iter_batches(batch_size=_LOOK_ROWS, use_threads=False),
            )
        else:
            yield _columns_and_batches(file)


def write_parquet(
    file: BinaryIO, samples: Iterable[Mapping[str, Any]], schema: Schema, *, codec: str = "zstd"
) -> int:
    """Write samples in the form that ``TypedCodec.decode`` returns; return their number.

    Raises:
        ConfigError: Parquet does not have the codec.
    """
    columns = arrow_schema(schema)
    try:
        writer = pq.ParquetWriter(file, columns, compression=codec, write_page_checksum=True)
    except (ValueError, OSError, pa.ArrowException) as error:
        raise ConfigError(f"expected a codec of Parquet, got {codec!r}: {error}") from error
    with writer:
        return _write(writer, samples, schema, columns)


def write_arrow(file: BinaryIO, samples: Iterable[Mapping[str, Any]], schema: Schema) -> int:
    """Write samples in the form that ``TypedCodec.decode`` returns; return their number."""
    columns = arrow_schema(schema)
    with pa.ipc.new_file(file, columns) as writer:
        return _write(writer, samples, schema, columns)


def _write(
    writer: Any, samples: Iterable[Mapping[str, Any]], schema: Schema, columns: pa.Schema
) -> int:
    rest, count, rows = iter(samples), 0, 64
    while taken := list(islice(rest, rows)):
        arrays = [
            _array([sample[field.name] for sample in taken], columns.field(field.name).type)
            for field in schema
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=columns)
        writer.write_batch(batch)
        count += len(taken)
        # The number of rows that fills _BATCH_BYTES, estimated from this batch.
        rows = max(1, min(_BATCH_ROWS, _BATCH_BYTES * len(taken) // max(1, batch.nbytes)))
    return count


def _columns_and_batches(file: BinaryIO) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    is_file = file.read(len(_FILE_MAGIC)) == _FILE_MAGIC
    file.seek(0)
    if not is_file:
        stream = ArrowStream(file)
        return stream.schema, stream.iter_batches()
    reader = pa.ipc.open_file(file)
    return reader.schema, map(reader.get_batch, range(reader.num_record_batches))


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        values = [None if value is None else value.tolist() for value in values]
    elif not (pa.types.is_binary(kind) or pa.types.is_string(kind)):
        values = [None if value is None else value[()] for value in values]
    return pa.array(values, kind)


def _places_with_nulls(parquet: pq.ParquetFile) -> Set[Place] | None:
    """Return the places of columns, or parts of structs, that may hold a null; None if unknown.

    Columns of Parquet are matched by their order, not by path: the path "a.b" may be the column
    "a.b", or the part b of the struct a.
    """
    metadata, columns = parquet.metadata, parquet.schema_arrow
    places = [
        place for number, each in enumerate(columns) for place in _leaves(each.type, (number,))
    ]
    if not metadata.num_row_groups or len(places) != metadata.num_columns:
        return None
    with_nulls: set[Place] = set()
    for group in range(metadata.num_row_groups):
        # Read a row first: for a damaged footer this raises an error, while access to the
        # statistics would crash the process.
        next(parquet.iter_batches(batch_size=1, row_groups=[group], use_threads=False), None)
        for number, place in enumerate(places):
            column = metadata.row_group(group).column(number)
            promised = metadata.schema.column(number).physical_type
            if column.physical_type != promised:
                # Access to the statistics of such a column would crash the process too.
                name = column.path_in_schema
                raise FormatError(f"expected {promised} in {name!r}, got {column.physical_type}")
            counts = column.statistics
            if counts is None or not counts.has_null_count or counts.null_count:
                with_nulls.add(place)
    return with_nulls


def _leaves(kind: pa.DataType, place: Place) -> Iterator[Place]:
    """Yield for each column that Parquet stores for a type its place in the structs."""
    if isinstance(kind, pa.BaseExtensionType):
        yield from _leaves(kind.storage_type, place)
    elif pa.types.is_dictionary(kind) or not pa.types.is_nested(kind):
        yield place
    else:
        for number in range(kind.num_fields):
            within = (*place, number) if pa.types.is_struct(kind) else place
            yield from _leaves(kind.field(number).type, within)


def _column_to_numpy(field: Field, column: Any, path: FilePath) -> Any:
    column = plain(column)
    missing = column.is_null().to_numpy(zero_copy_only=False)
    if missing.any() and not field.optional:
        raise FormatError(f"column {field.name!r}: a value is null", path=str(path))
    if missing.any():
        filler = pa.array([np.zeros(field.item_shape, field.dtype).tolist()], column.type)
        column = pa.compute.if_else(column.is_valid(), column, filler[0])
    for _ in field.shape:
        column = column.flatten()
    if column.null_count:
        raise FormatError(f"column {field.name!r}: a list holds a null", path=str(path))
    values = column.to_numpy(zero_copy_only=False)
    values = values.astype(field.dtype, copy=False).reshape(len(missing), *field.item_shape)
    return masked_rows(values, missing) if field.optional else values


def _values(column: TableColumn, batch: pa.RecordBatch, path: FilePath) -> list[Any]:
    field, found = column.field, plain(column.of(batch))
    if not field.optional and found.null_count:
        raise FormatError(f"column {field.name!r}: a value is null", path=str(path))
    if column.is_json:
        return json_texts(found)
    if not field.shape:
        values: list[Any] = found.to_pylist()
        return values
    return [_nested(field, each.values, path) if each.is_valid else None for each in found]


def _nested(field: Field, values: Any, path: FilePath) -> Any:
    num_items = len(values)
    for _ in field.shape[1:]:
        values = values.flatten()
    if values.null_count:
        raise FormatError(f"column {field.name!r}: a list holds a null", path=str(path))
    array = values.to_numpy(zero_copy_only=False).astype(field.dtype, copy=False)
    return array.reshape(num_items, *field.shape[1:])


@contextmanager
def _arrow_errors(path: FilePath) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, EOFError, UnicodeError) as error:
        raise FormatError(f"the file is damaged: {error}", path=str(path)) from error
    except FormatError as error:
        error.path = error.path or str(path)
        raise

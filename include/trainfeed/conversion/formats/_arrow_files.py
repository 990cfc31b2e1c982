"""Parquet and Arrow files ↔ typed samples, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from trainfeed.conversion._foreign_input import open_input
from trainfeed.conversion.formats._arrow_json import json_texts, plain
from trainfeed.conversion.formats._arrow_schema import (
    ColumnOptions,
    Place,
    TableColumn,
    columns_of,
)
from trainfeed.conversion.formats._arrow_stream import ArrowStream
from trainfeed.errors import ConfigError, FormatError
from trainfeed.paths import FilePath
from trainfeed.samples import Field, Schema, masked_rows
from trainfeed.samples.arrow import arrow_schema

__all__ = [
    "ArrowTable",
    "open_arrow",
    "open_parquet",
    "write_arrow",
    "write_parquet",
]

_FILE_MAGIC: Final = b"ARROW1"
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

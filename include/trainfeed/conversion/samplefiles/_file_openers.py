"""Opens files of the formats that hold records, tables or lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, Final

from trainfeed.conversion.formats import (
    ArrowTable,
    idx_schema,
    iter_idx,
    iter_idx_pairs,
    read_csv,
    read_idx_header,
    read_json_lines,
    read_sparse,
    with_delimiter,
)
from trainfeed.conversion.samplefiles._record_samples import decode_each, name_file, record_decoder
from trainfeed.conversion.samplefiles._sample_file import SampleFile, SourceOptions
from trainfeed.conversion.samplefiles._sidecar import known_encoding
from trainfeed.conversion.samplefiles._sniff import Format
from trainfeed.dataset.shards import Encoding, FileFormat
from trainfeed.errors import ConfigError, FormatError
from trainfeed.paths import SetWatch
from trainfeed.recordio import RecordIndex, RecordScanner
from trainfeed.samples import SampleReader, Schema
from trainfeed.tfrecord import ExampleCodec, TFRecordReader

__all__ = ["csv_file", "idx_file", "json_lines_file", "records_file", "sparse_file", "table_file"]

_BLOCK_BYTES: Final = 1 << 20


def records_file(path: Path, file_format: Format, options: SourceOptions) -> SampleFile:
    """Return the records of a RecordIO or TFRecord file, in their encoding if that is known.

    Raises:
        FormatError: A manifest beside the file is damaged, or states another size.
    """
    SetWatch([path])
    schema, encoding = options.schema, Encoding.TYPED
    if schema is None:
        encoding, schema = known_encoding(path)
    is_recordio = file_format is Format.RECORDIO
    container = FileFormat(file_format.value)

    def records() -> Iterator[bytes]:
        return iter(RecordScanner([path]) if is_recordio else TFRecordReader([path]))

    def samples() -> Iterator[Any]:
        return decode_each(records(), record_decoder(encoding, schema, container), path)

    def num_samples() -> int:
        if is_recordio:
            return RecordIndex.load(path).num_records
        return sum(1 for _ in records())

    return SampleFile(
        path,
        file_format,
        schema,
        encoding,
        samples,
        partial(_record_blocks, path, schema, container) if schema and schema.is_fixed else None,
        num_samples,
        records if options.schema is None else None,
        container,
    )


def _record_blocks(
    path: Path, schema: Schema, container: FileFormat
) -> Iterator[Mapping[str, Any]]:
    num_samples = max(_BLOCK_BYTES // schema.record_dtype.itemsize, 1)
    if container is FileFormat.RECORDIO:
        yield from SampleReader([path], schema).iter_batches(num_samples)
        return
    codec, start = ExampleCodec(schema), 0
    for records in TFRecordReader([path]).iter_batches(num_samples):
        try:
            block = codec.decode_records(records)
        except FormatError as error:
            error.args = (f"from record {start} on, {error.args[0]}",)
            name_file(error, path)
            raise
        yield block
        start += len(records)


def table_file(
    path: Path,
    file_format: Format,
    options: SourceOptions,
    *,
    opener: Callable[..., AbstractContextManager[ArrowTable]],
) -> SampleFile:
    """Return the rows of a Parquet or Arrow file; ``opener`` opens its table."""
    opener = partial(opener, options=options.columns)
    with opener(path) as table:
        schema, times = table.schema, table.times
    _require_schema(path, schema, options.schema)

    def samples() -> Iterator[Any]:
        with opener(path) as table:
            yield from table.iter_samples()

    def blocks() -> Iterator[Mapping[str, Any]]:
        with opener(path) as table:
            yield from table.iter_columns()

    def num_samples() -> int:
        with opener(path) as table:
            return table.count_rows()

    return SampleFile(
        path,
        file_format,
        schema,
        Encoding.TYPED,
        samples,
        blocks if schema.is_fixed else None,
        num_samples,
        times=times,
    )


def _require_schema(path: Path, found: Schema, wanted: Schema | None) -> None:
    if wanted is not None and wanted != found:
        raise FormatError(
            f"expected the schema {wanted.to_json()}, the file has {found.to_json()}",
            path=str(path),
        )


def idx_file(path: Path, file_format: Format, options: SourceOptions) -> SampleFile:
    """Return the items of an IDX file, together with the labels if there is a file of them."""
    labels = options.labels

    def blocks() -> Iterator[Mapping[str, Any]]:
        if labels is not None:
            return iter_idx_pairs(path, labels)
        return ({"image": block} for block in iter_idx(path))

    def samples() -> Iterator[Any]:
        for block in blocks():
            names = list(block)
            for values in zip(*block.values(), strict=True):
                yield dict(zip(names, values, strict=True))

    schema = idx_schema(path, labels)
    _require_schema(path, schema, options.schema)
    return SampleFile(
        path,
        file_format,
        schema,
        Encoding.TYPED,
        samples,
        blocks,
        lambda: read_idx_header(path).num_items,
    )


def json_lines_file(path: Path, file_format: Format, options: SourceOptions) -> SampleFile:
    """Return the values of a file of JSON lines."""
    return _text_file(path, file_format, options, partial(read_json_lines, path, options.schema))


def csv_file(path: Path, file_format: Format, options: SourceOptions) -> SampleFile:
    """Return the rows of a CSV file; for errors see ``with_delimiter``."""
    csv = with_delimiter(path, options.csv, options.schema)
    read = partial(read_csv, path, options.schema, options=csv)
    return _text_file(path, file_format, options, read)


def _text_file(
    path: Path,
    file_format: Format,
    options: SourceOptions,
    samples: Callable[[], Iterator[Any]],
) -> SampleFile:
    schema = options.schema

    encoding = Encoding.VALUE if schema is None else Encoding.TYPED
    return SampleFile(
        path, file_format, schema, encoding, samples, None, lambda: sum(1 for _ in samples())
    )


def sparse_file(path: Path, file_format: Format, options: SourceOptions) -> SampleFile:
    """Return the samples of a libSVM file; the options must describe its lines."""
    sparse = options.sparse
    if sparse is None:
        raise ConfigError(
            f"{path}: lines of libsvm do not say where indices start and how many features there"
            " are; give both"
        )

    def samples() -> Iterator[Any]:
        return read_sparse(path, sparse)

    return SampleFile(
        path,
        file_format,
        sparse.schema,
        Encoding.TYPED,
        samples,
        None,
        lambda: sum(1 for _ in samples()),
    )

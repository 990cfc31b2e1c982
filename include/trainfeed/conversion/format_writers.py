"""Writes samples to one file of any format, in order."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import numpy as np

from trainfeed.conversion.arrow import write_arrow, write_parquet
from trainfeed.conversion.csv_files import write_csv
from trainfeed.conversion.formats import Format, SampleFile, format_of_name
from trainfeed.conversion.idx import write_idx
from trainfeed.conversion.json_lines import write_json_lines
from trainfeed.conversion.libsvm import SparseOptions, write_sparse
from trainfeed.conversion.npy import write_npy, write_npz
from trainfeed.conversion.record_files import (
    ConvertOptions,
    open_sink,
    record_encoder,
    write_sidecar,
)
from trainfeed.conversion.webdataset import write_webdataset
from trainfeed.core.datacenters import local_target
from trainfeed.errors import ConfigError
from trainfeed.files import FilePath, NewFile
from trainfeed.readers import IdxHeader
from trainfeed.samples import Schema, TypedCodec
from trainfeed.versions.shards import Encoding, FileFormat

# --- Writes samples to one file of any format, in order


@dataclass(frozen=True)
class SinkOptions:
    """Format of the new file.

    Attributes:
        file_format: Format of the file; None takes the format of its suffix.
        codec: Name of the compression, for RecordIO, TFRecord and Parquet; None is no compression,
            for Parquet zstd.
        sparse: How lines of libSVM are written.
        labels: File for the labels, for IDX.
        delimiter: Character between the cells of CSV; None is a tab in files ``*.tsv``, and a
            comma in others.
    """

    file_format: Format | None = None
    codec: str | None = None
    sparse: SparseOptions | None = None
    labels: FilePath | None = None
    delimiter: str | None = None


def transcode(source: SampleFile, path: FilePath, options: SinkOptions) -> int:
    """Write the samples of a file to another one, in their order.

    Typed samples that are written in any format are read back equal. The new file appears when it
    is complete; for typed and value samples in RecordIO and TFRecord, ``<path>.schema.json``
    appears before it.

    Returns:
        The number of samples.

    Raises:
        ConfigError: The format is unknown, or cannot represent these samples.
        ConflictError: A file exists at the path.
        FormatError: The source is damaged; nothing was written.
    """
    path = Path(local_target(path))
    file_format = options.file_format or format_of_name(path)
    if file_format is None:
        raise ConfigError(
            f"expected a name that says the format, such as .{Format.PARQUET}, got {path.name!r};"
            " name the format"
        )
    _require_used(options, file_format)
    if file_format in _RECORDS:
        return _write_records(source, path, FileFormat(file_format.value), options)
    if file_format is not Format.PARQUET and (options.codec or "none").lower() != "none":
        raise ConfigError(f"{file_format} has no compression, got the codec {options.codec!r}")
    if file_format is Format.IDX:
        return _write_idx(source, path, options)
    if file_format in _ARRAYS:
        return _write_arrays(source, path, _ARRAYS[file_format])
    write = _WRITERS[file_format]
    if options.delimiter is None and path.suffix.lower() == ".tsv":
        options = replace(options, delimiter="\t")
    schema = source.schema
    if schema is None and file_format is not Format.JSON_LINES:
        raise ConfigError(f"{source.path}: {file_format} needs typed samples; give a schema")
    with NewFile(path, buffer_bytes=_BUFFER_BYTES) as new:
        # Without a schema these are the samples of JSON lines, the only ones that need none.
        return write(new.file, _as_decoded(source), cast("Schema", schema), options)


def _require_used(options: SinkOptions, file_format: Format) -> None:
    if options.delimiter is not None and file_format is not Format.CSV:
        raise ConfigError(f"only CSV has a delimiter, the new file is {file_format}")
    if options.labels is not None and file_format is not Format.IDX:
        raise ConfigError(f"only IDX has a file of labels, the new file is {file_format}")


_BUFFER_BYTES: Final = 1 << 20
_RECORDS: Final = frozenset({Format.RECORDIO, Format.TFRECORD})
_Write = Callable[[BinaryIO, Iterator[Any], Schema, SinkOptions], int]


def _csv(file: BinaryIO, samples: Iterator[Any], schema: Schema, options: SinkOptions) -> int:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    try:
        return write_csv(text, samples, schema, delimiter=options.delimiter or ",")
    finally:
        text.detach()


def _parquet(file: BinaryIO, samples: Iterator[Any], schema: Schema, options: SinkOptions) -> int:
    return write_parquet(file, samples, schema, codec=options.codec or "zstd")


def _libsvm(file: BinaryIO, samples: Iterator[Any], schema: Schema, options: SinkOptions) -> int:
    sparse = options.sparse
    if sparse is None or schema != sparse.schema:
        raise ConfigError(
            "expected samples of label, indices, values and shape, and the options of the lines,"
            f" got {schema.to_json()}"
        )
    return write_sparse(file, samples, sparse)


def _without_options(write: Callable[[BinaryIO, Iterator[Any], Schema], int]) -> _Write:
    return lambda file, samples, schema, _: write(file, samples, schema)


_ARRAYS: Final = {Format.NPY: write_npy, Format.NPZ: write_npz}
_WRITERS: Final[dict[Format, _Write]] = {
    Format.JSON_LINES: _without_options(write_json_lines),
    Format.CSV: _csv,
    Format.PARQUET: _parquet,
    Format.ARROW: _without_options(write_arrow),
    Format.LIBSVM: _libsvm,
    Format.WEBDATASET: _without_options(write_webdataset),
}


def _write_records(
    source: SampleFile, path: Path, container: FileFormat, options: SinkOptions
) -> int:
    shard_format = ConvertOptions(file_format=container).shard_format(options.codec or "none")
    records: Iterable[bytes]
    if source.records is not None and source.container is container:
        records = source.records()
    else:
        encode = record_encoder(source.encoding, source.schema, container)
        records = encode(source.samples())
    count = 0
    with NewFile(path, buffer_bytes=_BUFFER_BYTES) as new:
        with open_sink(shard_format, new.file) as sink:
            for record in records:
                sink.write(record)
                count += 1
        if source.encoding is not Encoding.BYTES:
            write_sidecar(path, source.encoding, source.schema)
    return count


def _write_arrays(
    source: SampleFile, path: Path, write: Callable[[BinaryIO, Any, Schema, int], None]
) -> int:
    if source.schema is None:
        raise ConfigError(f"{source.path}: arrays of NumPy need typed samples; give a schema")
    count = source.num_samples()
    with NewFile(path, buffer_bytes=_BUFFER_BYTES) as new:
        write(new.file, partial(_as_decoded, source), source.schema, count)
    return count


def _write_idx(source: SampleFile, path: Path, options: SinkOptions) -> int:
    fields = () if source.schema is None else source.schema.fields
    wanted = 1 if options.labels is None else 2
    if len(fields) != wanted or not all(field.is_fixed and not field.optional for field in fields):
        raise ConfigError(
            f"expected samples of {wanted} fields of fixed size for IDX, got"
            f" {[field.name for field in fields]}; a second field needs a file for labels"
        )
    count = source.num_samples()
    paths = [path] if options.labels is None else [path, Path(local_target(options.labels))]
    for field, target in zip(fields, paths, strict=True):
        header = IdxHeader(count, field.item_shape, np.dtype(field.dtype))
        values = (np.asarray(sample[field.name])[np.newaxis] for sample in _as_decoded(source))
        with NewFile(target, buffer_bytes=_BUFFER_BYTES) as new:
            write_idx(new.file, values, header)
    return count


def _as_decoded(source: SampleFile) -> Iterator[Any]:
    """Yield typed samples in the form of ``TypedCodec.decode``, other samples unchanged."""
    if source.schema is None:
        if source.encoding is Encoding.BYTES:
            raise ConfigError(f"{source.path}: nothing says what the records are; give a schema")
        return source.samples()
    codec = TypedCodec(source.schema)
    if source.container is not None:
        return source.samples()
    return (codec.decode(codec.encode(sample)) for sample in source.samples())

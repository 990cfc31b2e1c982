"""Files of any format as samples: what ``convert_files`` and the commands read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from trainfeed.conversion._arrow_files import ArrowTable, open_arrow, open_parquet
from trainfeed.conversion._csv_files import CsvOptions, read_csv, with_delimiter
from trainfeed.conversion._idx import idx_schema, iter_idx, iter_idx_pairs, read_idx_header
from trainfeed.conversion._json_lines import read_json_lines
from trainfeed.conversion._manifest import Encoding, ShardManifest
from trainfeed.conversion._options import FileFormat
from trainfeed.conversion._records import decode_each, name_file, record_decoder
from trainfeed.conversion._sidecar import known_encoding
from trainfeed.conversion._sniff import Format, format_of
from trainfeed.conversion._sparse import SparseOptions, read_sparse
from trainfeed.conversion._webdataset import (
    count_webdataset,
    read_webdataset,
    webdataset_schema,
)
from trainfeed.dataset import Version
from trainfeed.dataset.layout import MANIFEST
from trainfeed.errors import ConfigError, FormatError
from trainfeed.paths import FilePath, expand_paths
from trainfeed.recordio import RecordIndex, RecordScanner
from trainfeed.samples import SampleReader, Schema
from trainfeed.tfrecord import ExampleCodec, TFRecordReader

__all__ = ["SampleFile", "SourceOptions", "open_sample_file", "paths_of"]

_BLOCK_BYTES: Final = 1 << 20
_CSV_DEFAULTS: Final = CsvOptions()


@dataclass(frozen=True)
class SourceOptions:
    """What files do not say themselves.

    Attributes:
        file_format: Format of all files; None to look at each.
        schema: Of typed samples; None for the one of the set's manifest, of the file's own
            metadata, or else for records as they are, and for values of JSON lines and CSV.
        labels: IDX file of the labels, for one file of images.
        sparse: How to read lines of libSVM.
        csv: How to read the text of CSV.
    """

    file_format: Format | None = None
    schema: Schema | None = None
    labels: FilePath | None = None
    sparse: SparseOptions | None = None
    csv: CsvOptions = _CSV_DEFAULTS


@dataclass(frozen=True)
class SampleFile:
    """The samples of one file; everything can be iterated again.

    Attributes:
        path: The file.
        file_format: Its format.
        schema: Of typed samples, else None.
        encoding: What the samples are.
        samples: Yields them: mappings, values, or records as bytes.
        blocks: Yields arrays of many samples, None where the format or the schema has none.
        num_samples: Counts them, by reading the file where it has no index.
        records: Yields the records of a RecordIO or TFRecord file as they are; None for another
            format, and where only decoding shows that they are of the schema.
        container: Of ``records``.
    """

    path: Path
    file_format: Format
    schema: Schema | None
    encoding: Encoding
    samples: Callable[[], Iterator[Any]]
    blocks: Callable[[], Iterator[Mapping[str, Any]]] | None
    num_samples: Callable[[], int]
    records: Callable[[], Iterator[bytes]] | None = None
    container: FileFormat | None = None


def paths_of(inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Return the files that paths, comma lists, globs and folders stand for, in order.

    Raises:
        NotFoundError: A part matches no file; names the part.
        ConfigError: A folder is no published version, and holds no set of shards, or several.
    """
    found = map(Path, expand_paths(inputs))
    return [path for each in found for path in (_shards_of(each) if each.is_dir() else [each])]


def open_sample_file(path: FilePath, options: SourceOptions) -> SampleFile:
    """Return the samples of a file.

    Raises:
        FormatError: The file is none of its format.
        ConfigError: Something that the file does not say is missing in ``options``.
        NotFoundError: There is no such file.
    """
    file_format = options.file_format or format_of(path)
    return _OPENERS[file_format](Path(path), file_format, options)


def _open_records(path: Path, file_format: Format, options: SourceOptions) -> SampleFile:
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


def _open_table(
    path: Path,
    file_format: Format,
    options: SourceOptions,
    *,
    opener: Callable[[Path], AbstractContextManager[ArrowTable]],
) -> SampleFile:
    with opener(path) as table:
        schema = table.schema
    if options.schema is not None and options.schema != schema:
        raise FormatError(
            f"expected the schema {options.schema.to_json()}, the file has {schema.to_json()}",
            path=str(path),
        )

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
    )


def _open_idx(path: Path, file_format: Format, options: SourceOptions) -> SampleFile:
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
    return SampleFile(
        path,
        file_format,
        schema,
        Encoding.TYPED,
        samples,
        blocks,
        lambda: read_idx_header(path).num_items,
    )


def _open_json_lines(path: Path, file_format: Format, options: SourceOptions) -> SampleFile:
    return _text_file(path, file_format, options, partial(read_json_lines, path, options.schema))


def _open_csv(path: Path, file_format: Format, options: SourceOptions) -> SampleFile:
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


def _open_webdataset(path: Path, file_format: Format, options: SourceOptions) -> SampleFile:
    schema = webdataset_schema(path) if options.schema is None else options.schema
    return SampleFile(
        path,
        file_format,
        schema,
        Encoding.TYPED,
        partial(read_webdataset, path, schema),
        None,
        partial(count_webdataset, path),
    )


def _open_sparse(path: Path, file_format: Format, options: SourceOptions) -> SampleFile:
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


_OPENERS: Final[Mapping[Format, Callable[[Path, Format, SourceOptions], SampleFile]]] = {
    Format.RECORDIO: _open_records,
    Format.TFRECORD: _open_records,
    Format.PARQUET: partial(_open_table, opener=open_parquet),
    Format.ARROW: partial(_open_table, opener=open_arrow),
    Format.IDX: _open_idx,
    Format.JSON_LINES: _open_json_lines,
    Format.CSV: _open_csv,
    Format.LIBSVM: _open_sparse,
    Format.WEBDATASET: _open_webdataset,
}


def _shards_of(folder: Path) -> list[Path]:
    if (folder / MANIFEST).is_file():
        version = Version.open(folder)
        return [path for split in version.manifest.splits for path in version.shard_paths(split)]
    suffix = ".shards.json"
    found = sorted(folder.glob(f"*{suffix}"))
    if len(found) != 1:
        raise ConfigError(
            f"expected {folder} to be a published version, or to hold one set of shards with its"
            f" manifest, got {len(found)}; name the files"
        )
    manifest = ShardManifest.load(folder, found[0].name.removesuffix(suffix))
    if problems := manifest.problems(folder):
        raise FormatError("; ".join(problems[:3]), path=str(found[0]))
    return [folder / shard.name for shard in manifest.shards]

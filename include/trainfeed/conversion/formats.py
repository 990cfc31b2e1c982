"""Files of any format as samples: their format is recognised, and they are opened."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from trainfeed.conversion.arrow import (
    ArrowTable,
    ColumnOptions,
    begins_stream,
    open_arrow,
    open_parquet,
)
from trainfeed.conversion.csv_files import CsvOptions, read_csv, with_delimiter
from trainfeed.conversion.foreign_input import open_input
from trainfeed.conversion.idx import (
    idx_schema,
    iter_idx,
    iter_idx_pairs,
    read_idx_header,
)
from trainfeed.conversion.input_paths import BucketShard, shard_in_bucket
from trainfeed.conversion.json_lines import (
    read_json_lines,
)
from trainfeed.conversion.libsvm import (
    SparseOptions,
    read_sparse,
)
from trainfeed.conversion.npy import (
    NPY_MAGIC,
    VALUE,
    fields_of_array,
    iter_npy,
    iter_npz,
    open_npz,
    read_npy_header,
)
from trainfeed.conversion.record_files import decode_each, known_encoding, name_file, record_decoder
from trainfeed.conversion.webdataset import (
    count_webdataset,
    read_webdataset,
    webdataset_schema,
)
from trainfeed.core.datacenters import local_source
from trainfeed.errors import ConfigError, FormatError
from trainfeed.files import FilePath, SetWatch
from trainfeed.recordio import RecordIndex, RecordScanner
from trainfeed.samples import SampleReader, Schema
from trainfeed.sources.log_folders import COMPRESSIONS
from trainfeed.tfrecord import MAX_RECORD_BYTES, ExampleCodec, TFRecordReader
from trainfeed.tfrecord.format import has_valid_header
from trainfeed.versions.shards import Encoding, FileFormat

# --- Recognises the format of a file by its first bytes, or by its name if these do not show it

_HEAD_BYTES: Final = 4096
_COMPRESSED: Final = frozenset(each.suffix for each in COMPRESSIONS)


class Format(StrEnum):
    """A format that samples or records are stored in."""

    RECORDIO = "recordio"
    TFRECORD = "tfrecord"
    PARQUET = "parquet"
    ARROW = "arrow"
    IDX = "idx"
    JSON_LINES = "jsonl"
    CSV = "csv"
    LIBSVM = "libsvm"
    WEBDATASET = "webdataset"
    NPY = "npy"
    NPZ = "npz"


_OF_TEXT: Final = frozenset({b"[", b"<"})
# Formats that people bring, and that no reader here has: begin, name, way to one that is read.
_NOT_READ: Final = (
    (b"[", "a JSON array", "JSON lines are read: jq -c '.[]' FILE > FILE.jsonl"),
    (b"<", "XML or HTML", "write its rows as JSON lines or CSV"),
    (b"Obj\x01", "an Avro file", "write it as Parquet or JSON lines"),
    (b"ORC", "an ORC file", "write it as Parquet"),
    (b"SQLite format 3\0", "a SQLite database", "write its tables as CSV or Parquet"),
    (b"\x89HDF\r\n", "an HDF5 file", "write its arrays as .npy or .npz"),
)
_SHOWN_BYTES: Final = 16
_IDX_TYPES: Final = frozenset({8, 9, 11, 12, 13, 14})


def format_of(path: FilePath) -> Format:
    """Return the format of a file.

    Raises:
        FormatError: Neither content nor name tell the format.
        NotFoundError: The file does not exist.
    """
    if (shard := shard_in_bucket(path)) is not None:
        return Format(shard.container)
    with open_input(path) as file:
        head = file.read(_HEAD_BYTES)
    if (found := _format_of_content(head)) is not None:
        return found
    local = Path(local_source(path))
    by_name = format_of_lines(local) or format_of_name(local)
    if by_name in {None, Format.JSON_LINES}:
        _refuse_known(head, path)
    if by_name is not None:
        return by_name
    # An empty file: shards have no suffix, and a set may have empty shards.
    if not head:
        return Format.RECORDIO
    raise FormatError(
        f"expected a file of {', '.join(Format)}, it begins with {_shown(head)}; name its format:"
        " --format",
        path=str(path),
    )


def _refuse_known(head: bytes, path: FilePath) -> None:
    """Refuse a file of a format that is known, and not read, with the way to one that is.

    Raises:
        ConfigError: It is such a file: nothing is damaged.
    """
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    for start, what, remedy in _NOT_READ:
        if (text if start in _OF_TEXT else head).startswith(start):
            raise ConfigError(
                f"expected a file of {', '.join(Format)}, {path} is {what}; nothing was read;"
                f" {remedy}"
            )


def _shown(head: bytes) -> str:
    """Return the begin of a file: as text if it is text, else in hex."""
    try:
        text = head[:_SHOWN_BYTES].decode("ascii")
    except UnicodeDecodeError:
        return head[:8].hex()
    return ascii(text) if text.replace("\n", "").replace("\r", "").isprintable() else head[:8].hex()


def _format_of_content(head: bytes) -> Format | None:
    for file_format, kind in _KINDS.items():
        if kind.start and head.startswith(kind.start):
            return file_format
    if begins_stream(head):
        return Format.ARROW
    inflated = _inflated(head)
    if _is_tar(head) or _is_tar(inflated):
        return Format.WEBDATASET
    if _is_tfrecord(head) or _is_tfrecord(inflated):
        return Format.TFRECORD
    return Format.IDX if _is_idx(head) or _is_idx(inflated) else None


def format_of_name(path: Path) -> Format | None:
    """Return the format that the suffix of a file name stands for; None if unknown."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if ".tar" in suffixes[-2:]:
        return Format.WEBDATASET
    suffixes = [suffix for suffix in suffixes if suffix != ".gz"]
    for file_format, kind in _KINDS.items():
        if suffixes and suffixes[-1] in kind.suffixes:
            return file_format
    return None


def format_of_lines(path: Path) -> Format | None:
    """Return the format of lines that a name stands for in front of that of a compression."""
    named = format_of_name(path.with_suffix("")) if path.suffix in _COMPRESSED else None
    return named if named in {Format.JSON_LINES, Format.CSV} else None


def _is_tfrecord(head: bytes) -> bool:
    # The checksum of the length is evidence enough.
    return int.from_bytes(head[:8], "little") <= MAX_RECORD_BYTES and has_valid_header(head)


def _is_tar(head: bytes) -> bool:
    return head[257:262] == b"ustar"


def _is_idx(head: bytes) -> bool:
    return len(head) >= 8 and head[:2] == b"\0\0" and head[2] in _IDX_TYPES and 1 <= head[3] <= 8


def _inflated(head: bytes) -> bytes:
    for window_bits in (31, 15):
        try:
            return zlib.decompressobj(window_bits).decompress(head, 512)
        except zlib.error:
            continue
    return b""


# --- The samples of one file of any format, and the options that files do not state themselves

_CSV_DEFAULTS: Final = CsvOptions()
_COLUMN_DEFAULTS: Final = ColumnOptions()


@dataclass(frozen=True)
class SourceOptions:
    """Properties of input files that the files themselves do not state.

    Attributes:
        file_format: Format of all files; None recognises the format of each file.
        schema: Schema of typed samples; None takes the schema in the manifest of the set, or in
            the metadata of the file. Without any of these, record files give bytes, and JSON lines
            and CSV give values.
        labels: IDX file of the labels, for a single file of images.
        sparse: How lines of libSVM are read.
        csv: How the text of CSV is read.
        columns: How columns of Parquet and Arrow without a matching field are converted, and the
            names of fields for columns of these and of CSV.
    """

    file_format: Format | None = None
    schema: Schema | None = None
    labels: FilePath | None = None
    sparse: SparseOptions | None = None
    csv: CsvOptions = _CSV_DEFAULTS
    columns: ColumnOptions = _COLUMN_DEFAULTS

    def require_used(self, path: FilePath, file_format: Format) -> None:
        """Check that every option that is set applies to the format of a file.

        Raises:
            ConfigError: An option does not apply.
        """
        tables = {Format.PARQUET, Format.ARROW}
        renamed = ColumnOptions(renames=self.columns.renames)
        if self.columns != renamed and file_format not in tables:
            raise ConfigError(
                f"{path}: only columns of Parquet and Arrow are flattened or made JSON, this is"
                f" {file_format}"
            )
        if self.columns.renames and file_format not in {*tables, Format.CSV}:
            raise ConfigError(
                f"{path}: only columns of Parquet, Arrow and CSV are renamed, this is {file_format}"
            )
        if self.csv != _CSV_DEFAULTS and file_format is not Format.CSV:
            raise ConfigError(
                f"{path}: only CSV has a delimiter, a quote and an encoding, this is {file_format}"
            )
        if self.labels is not None and file_format is not Format.IDX:
            raise ConfigError(f"{path}: only IDX has a file of labels, this is {file_format}")


@dataclass(frozen=True)
class SampleFile:
    """The samples of one file; they can be iterated again.

    Attributes:
        path: The file.
        file_format: Format of the file.
        schema: Schema of typed samples; otherwise None.
        encoding: Encoding of the samples.
        samples: Yields the samples: mappings, values, or records as bytes.
        blocks: Yields arrays of many samples; None if the format or the schema does not allow it.
        num_samples: Returns the number of samples; reads the file if it has no index.
        records: Yields the unchanged records of a RecordIO or TFRecord file; None for another
            format, and where only decoding can show that records match the schema.
        container: File format of ``records``; None without ``records``.
        times: Field → type of its column, for dates and times, whose numbers have its unit.
        shard: What is read instead of a file, of a version in a bucket; None for a file.
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
    times: Mapping[str, str] = field(default_factory=dict)
    shard: BucketShard | None = None


# --- Opens files of the formats that hold arrays or members: NumPy and WebDataset


def webdataset_file(path: Path, file_format: Format, options: SourceOptions) -> SampleFile:
    """Return the samples of a tar of WebDataset; for errors see ``webdataset_schema``."""
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


def npy_file(path: Path, file_format: Format, options: SourceOptions) -> SampleFile:
    """Return the rows of an array of NumPy; for errors see ``read_npy_header``."""
    header = read_npy_header(path)
    found = Schema(fields_of_array(VALUE, header, str(path)))
    schema = _schema_of_arrays(
        path, found, options.schema, has_names=header.dtype.names is not None
    )
    blocks = partial(iter_npy, path, schema.fields)
    return _array_file(path, file_format, schema, blocks, header.num_rows)


def npz_file(path: Path, file_format: Format, options: SourceOptions) -> SampleFile:
    """Return the rows of an archive of NumPy; for errors see ``open_npz``."""
    with open_npz(path) as (_, columns):
        schema, num_rows = columns.schema, columns.num_rows
    _schema_of_arrays(path, schema, options.schema, has_names=True)
    return _array_file(path, file_format, schema, partial(iter_npz, path), num_rows)


def _schema_of_arrays(
    path: Path, found: Schema, wanted: Schema | None, *, has_names: bool
) -> Schema:
    """Return the schema of arrays; a single array without a name takes the name in ``wanted``."""
    if wanted is not None and not has_names and len(wanted.fields) == 1:
        found = Schema((replace(found.fields[0], name=wanted.fields[0].name),))
    _require_schema(path, found, wanted)
    return found


def _array_file(
    path: Path,
    file_format: Format,
    schema: Schema,
    blocks: Callable[[], Iterator[Mapping[str, Any]]],
    num_rows: int,
) -> SampleFile:
    def samples() -> Iterator[Any]:
        for block in blocks():
            # As Python str and bytes: those of numpy have a fixed width.
            columns = [
                block[field.name].tolist() if field.is_text else block[field.name]
                for field in schema
            ]
            for values in zip(*columns, strict=True):
                yield dict(zip(schema.names, values, strict=True))

    return SampleFile(
        path,
        file_format,
        schema,
        Encoding.TYPED,
        samples,
        blocks if schema.is_fixed else None,
        lambda: num_rows,
    )


# --- Opens files of the formats that hold records, tables or lines

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


def bucket_file(shard: BucketShard, file_format: Format, options: SourceOptions) -> SampleFile:
    """Return the records of a shard that is in a bucket; see ``records_file``.

    Raises:
        FormatError: It has another format.
    """
    container = shard.container
    if file_format != Format(container):
        raise FormatError(
            f"expected a file of {file_format}, got a shard of {container}", path=str(shard.path)
        )
    schema = options.schema or shard.version.schema

    def samples() -> Iterator[Any]:
        decode = record_decoder(Encoding.TYPED, schema, container)
        return decode_each(shard.records(), decode, shard.path)

    return SampleFile(
        shard.path,
        file_format,
        schema,
        Encoding.TYPED,
        samples,
        partial(shard.blocks, schema) if schema.is_fixed else None,
        lambda: shard.num_records,
        shard.records if options.schema is None else None,
        container,
        shard=shard,
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
    csv = with_delimiter(path, options.csv, options.schema, options.columns)
    read = partial(read_csv, path, options.schema, options=csv, columns=options.columns)
    return _text_file(path, file_format, options, read)


def _text_file(
    path: Path,
    file_format: Format,
    options: SourceOptions,
    samples: Callable[[], Iterator[Any]],
) -> SampleFile:
    encoding = Encoding.VALUE if options.schema is None else Encoding.TYPED
    return _line_file(path, file_format, options.schema, encoding, samples)


def _line_file(
    path: Path,
    file_format: Format,
    schema: Schema | None,
    encoding: Encoding,
    samples: Callable[[], Iterator[Any]],
) -> SampleFile:
    """Return samples that only reading counts."""
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

    samples = partial(read_sparse, path, sparse)
    return _line_file(path, file_format, sparse.schema, Encoding.TYPED, samples)


# --- Opens a file of any format


def open_sample_file(path: FilePath, options: SourceOptions) -> SampleFile:
    """Return the samples of a file.

    Raises:
        FormatError: The file does not have the format that its name or ``options`` state.
        ConfigError: ``options`` lack a property that the file does not state.
        NotFoundError: The file does not exist.
    """
    file_format = options.file_format or format_of(path)
    options.require_used(path, file_format)
    try:
        if (shard := shard_in_bucket(path)) is not None:
            return bucket_file(shard, file_format, options)
        return _KINDS[file_format].open(Path(local_source(path)), file_format, options)
    except ConfigError as error:
        # Errors of schemas and fields do not name the file.
        if str(path) not in str(error):
            error.args = (f"{path}: {error.args[0]}",)
        raise


class _Kind(NamedTuple):
    """What one format is recognised by, and how its files are opened.

    Attributes:
        open: Opens a file.
        suffixes: Endings of the names of its files.
        start: First bytes of all of its files; empty if there are none that show it.
    """

    open: Callable[[Path, Format, SourceOptions], SampleFile]
    suffixes: tuple[str, ...]
    start: bytes = b""


_KINDS: Final[Mapping[Format, _Kind]] = {
    Format.RECORDIO: _Kind(records_file, (".recordio",), b"\x04\x03\x02\x01"),
    Format.TFRECORD: _Kind(records_file, (".tfrecord", ".tfrecords")),
    Format.PARQUET: _Kind(partial(table_file, opener=open_parquet), (".parquet",), b"PAR1"),
    Format.ARROW: _Kind(
        partial(table_file, opener=open_arrow), (".arrow", ".feather"), b"ARROW1\0\0"
    ),
    Format.IDX: _Kind(idx_file, (".idx",)),
    Format.JSON_LINES: _Kind(json_lines_file, (".jsonl", ".ndjson")),
    Format.CSV: _Kind(csv_file, (".csv", ".tsv")),
    Format.LIBSVM: _Kind(sparse_file, (".libsvm", ".svm", ".libfm")),
    Format.WEBDATASET: _Kind(webdataset_file, (".tar", ".tgz")),
    Format.NPY: _Kind(npy_file, (".npy",), NPY_MAGIC),
    Format.NPZ: _Kind(npz_file, (".npz",), b"PK\x03\x04"),
}

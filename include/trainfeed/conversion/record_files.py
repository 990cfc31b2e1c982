"""Record files of a conversion: options, samples as records, encoding and schema of one file."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainfeed.conversion.foreign_input import read_small
from trainfeed.core import canonical_json
from trainfeed.core.datacenters import local_source
from trainfeed.errors import ConfigError, FormatError, NotFoundError, SampleShapeError
from trainfeed.files import FileMark, FilePath, mark_of
from trainfeed.files.stores.posix import replace_file
from trainfeed.recordio import Codec, RecordWriter
from trainfeed.samples import LENGTH_BYTES, Schema, TypedCodec, ValueCodec, frame_records
from trainfeed.tfrecord import Compression, ExampleCodec, TFRecordWriter
from trainfeed.versions import Version
from trainfeed.versions.layout import MANIFEST
from trainfeed.versions.shards import Encoding, FileFormat, ShardFormat, manifests_of

# --- Options of a conversion: the format of its files, and the memory and folders that it may use

AnyCodec: TypeAlias = Codec | Compression | str
OnProgress: TypeAlias = Callable[[int, int], None]
RecordSink: TypeAlias = RecordWriter | TFRecordWriter

_LEAST_MEMORY_BYTES: Final = 1 << 16


@dataclass(frozen=True)
class ConvertOptions:
    """Options that are seldom changed; none of them changes the place of a sample.

    Attributes:
        file_format: RecordIO or TFRecord files.
        level: Level of compression; None for the default of the codec.
        max_chunk_bytes: Bytes of records at which a chunk of RecordIO is closed.
        memory_bytes: Approximate bytes of records that are in memory at a time. The process grows
            by about twice this number; a single record may take more.
        work_dir: Folder for the encoded samples between reading and writing, in files without a
            name; None for the file system of the output. It needs room for all samples.
        on_progress: Called now and then with the numbers of samples read and written so far.

    Raises:
        ConfigError: A number is out of range.
    """

    file_format: FileFormat = FileFormat.RECORDIO
    level: int | None = None
    max_chunk_bytes: int = 1 << 20
    memory_bytes: int = 128 << 20
    work_dir: str | os.PathLike[str] | None = None
    on_progress: OnProgress | None = None

    def __post_init__(self) -> None:
        if self.memory_bytes < _LEAST_MEMORY_BYTES:
            raise ConfigError(
                f"expected memory_bytes from {_LEAST_MEMORY_BYTES}, got {self.memory_bytes}"
            )
        if self.file_format not in set(FileFormat):
            known = ", ".join(FileFormat)
            raise ConfigError(f"expected file_format as one of {known}, got {self.file_format!r}")

    def shard_format(self, codec: AnyCodec) -> ShardFormat:
        """Return the format of shards for a codec or the name of one.

        Raises:
            ConfigError: The file format does not have the codec, or the codec does not have the
                level, or the chunk size is out of range.
        """
        name = codec.name.lower() if isinstance(codec, Codec | Compression) else codec.lower()
        is_recordio = self.file_format == FileFormat.RECORDIO
        known = [each.name.lower() for each in (Codec if is_recordio else Compression)]
        if name not in known:
            raise ConfigError(
                f"expected a codec of {self.file_format} ({', '.join(known)}), got {codec!r}"
            )
        chunk_bytes = self.max_chunk_bytes if is_recordio else 0
        found = ShardFormat(FileFormat(self.file_format), name, self.level, chunk_bytes)
        # Refuses a wrong level or chunk size now, not after all samples were read.
        open_sink(found, io.BytesIO())
        return found


def open_sink(shard_format: ShardFormat, file: BinaryIO) -> RecordSink:
    """Return a writer of records to a binary file, which stays open.

    Raises:
        ConfigError: The codec does not have the level, or the chunk size is out of range.
    """
    if shard_format.file_format is FileFormat.RECORDIO:
        return RecordWriter(
            file,
            codec=Codec[shard_format.codec.upper()],
            level=shard_format.level,
            max_chunk_bytes=shard_format.max_chunk_bytes,
        )
    compression = Compression[shard_format.codec.upper()]
    return TFRecordWriter(file, compression, level=shard_format.level)


# --- Samples ↔ the bytes of a record, in RecordIO and in TFRecord

Encode: TypeAlias = Callable[[Iterable[Any]], Iterator[bytes]]
Decode: TypeAlias = Callable[[bytes], Any]

# Bytes of typed records that are converted to Examples together; smaller groups cost more calls.
_BATCH_BYTES: Final = 1 << 18


def record_encoder(encoding: Encoding, schema: Schema | None, file_format: FileFormat) -> Encode:
    """Return the function from samples to records, in order; it may read some samples ahead.

    Typed samples are mappings from field to value, or tuples in the order of the fields.

    Raises:
        ConfigError: The samples are typed, and there is no schema.
    """
    if encoding is Encoding.BYTES:
        return partial(_encode_each, _as_bytes)
    if encoding is Encoding.VALUE:
        return partial(_encode_each, ValueCodec().encode)
    typed, names = TypedCodec(_required(schema)), _required(schema).names
    encode: Encode = partial(_encode_each, lambda sample: typed.encode(_mapping(names, sample)))
    if file_format is FileFormat.RECORDIO:
        return encode
    # Via typed records, which give every value the dtype and shape of its field.
    return lambda samples: _examples(typed, encode(samples))


def record_decoder(encoding: Encoding, schema: Schema | None, file_format: FileFormat) -> Decode:
    """Return the function from a record to a sample: the inverse of ``record_encoder``.

    Raises:
        ConfigError: The samples are typed, and there is no schema.
    """
    if encoding is Encoding.BYTES:
        return _as_bytes
    if encoding is Encoding.VALUE:
        return ValueCodec().decode
    if file_format is FileFormat.RECORDIO:
        return TypedCodec(_required(schema)).decode
    return ExampleCodec(_required(schema)).decode


def decode_each(records: Iterable[bytes], decode: Decode, path: Path) -> Iterator[Any]:
    """Yield the samples of a file's records.

    Raises:
        FormatError: A record is not a sample; has the number of the record, from 0.
    """
    for number, record in enumerate(records):
        try:
            sample = decode(record)
        except FormatError as error:
            error.args = (f"record {number}: {error.args[0]}",)
            name_file(error, path)
            raise
        yield sample


def name_file(error: FormatError, path: Path) -> None:
    """Add the path to the error of a record; its offset counts from the start of the record."""
    if error.offset_bytes is not None:
        error.args = (f"{error.args[0]}, at byte {error.offset_bytes} of it",)
    error.path, error.offset_bytes = str(path), None


class ArrayEncoder:
    """Encodes blocks of samples of fixed size.

    Args:
        schema: Schema of the samples.
        file_format: File format of the records.

    Raises:
        ConfigError: The schema is not of fixed size.
    """

    def __init__(self, schema: Schema, file_format: FileFormat) -> None:
        if not schema.is_fixed:
            raise ConfigError(
                "expected a schema of fixed size for arrays; convert the samples one by one, with"
                " convert"
            )
        self._schema = schema
        self._typed = TypedCodec(schema)
        self._examples = None if file_format is FileFormat.RECORDIO else ExampleCodec(schema)

    def encode(
        self, block: NDArray[Any] | Mapping[str, NDArray[Any]]
    ) -> NDArray[Any] | list[bytes]:
        """Return the records of a block: an array for RecordIO, a list for TFRecord.

        Raises:
            SampleShapeError: The block does not match the schema.
        """
        rows = self._rows(block)
        if self._examples is None:
            return rows
        columns = self._typed.decode_records(frame_records(rows), len(rows))
        return self._examples.encode_columns(columns)

    def _rows(self, block: NDArray[Any] | Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        if not isinstance(block, np.ndarray):
            return self._typed.encode_columns(block)
        expected = self._schema.record_dtype
        if block.dtype != expected or block.ndim != 1:
            raise SampleShapeError(
                f"expected blocks of {expected}, shape (n,), got {block.dtype} {block.shape}"
            )
        return block


def _encode_each(encode: Callable[[Any], bytes], samples: Iterable[Any]) -> Iterator[bytes]:
    for number, sample in enumerate(samples):
        try:
            record = encode(sample)
        except SampleShapeError as error:
            error.args = (f"sample {number}: {error.args[0]}",)
            raise
        yield record


def _examples(typed: TypedCodec, records: Iterator[bytes]) -> Iterator[bytes]:
    """Yield typed records as Examples, converted in groups."""
    codec = ExampleCodec(typed.schema)
    batch: list[bytes] = []
    num_bytes = 0
    for record in records:
        batch.append(record)
        num_bytes += LENGTH_BYTES + len(record)
        if num_bytes >= _BATCH_BYTES:
            yield from _examples_of(typed, codec, batch)
            batch, num_bytes = [], 0
    yield from _examples_of(typed, codec, batch)


def _examples_of(typed: TypedCodec, codec: ExampleCodec, records: list[bytes]) -> list[bytes]:
    """Return typed records as Examples."""
    return codec.encode_columns(typed.decode_columns(frame_records(records), len(records)))


def _as_bytes(record: Any) -> bytes:
    if not isinstance(record, bytes | bytearray | memoryview):
        raise SampleShapeError(f"expected a record as bytes, got a {type(record).__name__}")
    return bytes(record)


def _required(schema: Schema | None) -> Schema:
    if schema is None:
        raise ConfigError("expected a schema for typed samples, got none")
    return schema


def _mapping(names: tuple[str, ...], sample: Any) -> Mapping[str, Any]:
    if isinstance(sample, Mapping):
        return sample
    if not isinstance(sample, tuple) or len(sample) != len(names):
        kind = type(sample).__name__
        got = f"a tuple of {len(sample)}" if isinstance(sample, tuple) else f"a {kind}"
        raise SampleShapeError(
            f"expected a sample as a mapping or as a tuple of {len(names)} values, for"
            f" {', '.join(names)}, got {got}"
        )
    return dict(zip(names, sample, strict=True))


# --- Encoding and schema of a single record file, in ``<file>.schema.json`` beside it

_FORMAT: Final = "trainfeed-schema/1"


def sidecar_path(path: Path) -> Path:
    """Return the path of the sidecar of a file."""
    return path.with_name(f"{path.name}.schema.json")


def write_sidecar(path: Path, encoding: Encoding, schema: Schema | None) -> None:
    """Write encoding and schema of a file's records to its sidecar."""
    fields = None if schema is None else schema.to_json()
    value = {"format": _FORMAT, "encoding": str(encoding), "schema": fields}
    replace_file(sidecar_path(path), (json.dumps(value, indent=1) + "\n").encode())


def known_encoding(path: Path) -> tuple[Encoding, Schema | None]:
    """Return encoding and schema of a file, from the manifest of its set or version, or a sidecar.

    Raises:
        FormatError: The manifest or the sidecar is damaged.
    """
    (manifest,) = manifests_of([path])
    if manifest is not None:
        return manifest.encoding, manifest.schema
    schema = _schema_of_version(path)
    if schema is not None:
        return Encoding.TYPED, schema
    try:
        data = read_small(sidecar_path(path))
    except NotFoundError:
        return Encoding.BYTES, None
    return _parse(data, sidecar_path(path))


def load_schema(path: FilePath) -> Schema:
    """Read a schema from a file: a list of fields, or an object with such a list as ``schema``.

    Raises:
        FormatError: The file is not JSON.
        ConfigError: The file does not contain a schema.
    """
    value = canonical_json.loads(read_small(Path(local_source(path))), path=str(path))
    if isinstance(value, dict):
        value = value.get("schema")
    if value is None:
        raise ConfigError(f"{path}: expected a list of fields, or an object with a schema")
    return Schema.from_json(value)


def _parse(data: bytes, path: Path) -> tuple[Encoding, Schema | None]:
    value: Any = canonical_json.loads(data, path=str(path))
    try:
        if value["format"] != _FORMAT:
            raise FormatError(f"expected format {_FORMAT}, got {value['format']!r}", path=str(path))
        encoding = Encoding(value["encoding"])
        schema = Schema.from_json(value["schema"]) if encoding is Encoding.TYPED else None
    except (KeyError, TypeError, ValueError, ConfigError) as error:
        raise FormatError(f"expected an account of records: {error}", path=str(path)) from error
    return encoding, schema


def _schema_of_version(path: Path) -> Schema | None:
    """Return the schema of the published version to which a shard belongs; None for other files."""
    mark = mark_of(path.parent / MANIFEST)
    if mark is None:
        return None
    schema, shards = _schema_and_shards(path.parent, mark)
    return schema if path.name in shards else None


@lru_cache(maxsize=4)
def _schema_and_shards(folder: Path, _mark: FileMark) -> tuple[Schema, frozenset[str]]:
    """Return the schema and the shards of a version; kept, for versions opened file by file."""
    version = Version.open(folder)
    splits = version.manifest.splits.values()
    return version.schema, frozenset(shard.name for split in splits for shard in split.shards)

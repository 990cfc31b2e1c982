"""Converts samples of a reader, arrays or files to shards, shuffled globally in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from numpy.typing import NDArray

from trainfeed.conversion.formats import SampleFile, SourceOptions, open_sample_file
from trainfeed.conversion.input_paths import paths_of, shard_in_bucket
from trainfeed.conversion.record_files import AnyCodec, ArrayEncoder, ConvertOptions, record_encoder
from trainfeed.conversion.shard_set import ConversionTarget
from trainfeed.conversion.sorting import RunBuilder
from trainfeed.core.datacenters import local_target
from trainfeed.errors import ConfigError, SampleShapeError
from trainfeed.files import SetWatch
from trainfeed.readers import BlockReader, open_reader
from trainfeed.recordio import Codec
from trainfeed.samples import Schema
from trainfeed.versions.shards import Encoding, ShardManifest

# --- Converts the samples of a reader to shards, shuffled globally in bounded memory

AnyReader: TypeAlias = Callable[[], Iterable[Any]]
Arrays: TypeAlias = NDArray[Any] | Mapping[str, NDArray[Any]]
ArraysReader: TypeAlias = Callable[[], Iterable[Arrays]]

_DEFAULTS: Final = ConvertOptions()


def convert(  # noqa: PLR0913 (the rest is in options)
    output_path: str | os.PathLike[str],
    reader: AnyReader,
    num_shards: int,
    name_prefix: str,
    *,
    seed: int = 0,
    codec: AnyCodec = Codec.NONE,
    schema: Schema | None = None,
    options: ConvertOptions = _DEFAULTS,
) -> ShardManifest:
    """Write the samples of a reader to ``num_shards`` files, shuffled over all of them.

    Every sample is in one file, once; the sizes of the files differ by at most one sample. The
    place of a sample depends only on the seed and on the order of the reader, so equal input gives
    equal files.

    The files appear together, after all of them were synced to disk. Until then, and after any
    error, an earlier set of the same prefix is unchanged; afterwards all its files are gone. Other
    files in the folder are never touched. Samples wait on disk between reading and writing, so a
    reader of any length takes only the memory of ``options.memory_bytes``.

    Args:
        output_path: The folder; made if it is missing.
        reader: Called once; yields samples. With a schema a sample is a mapping from field to
            value, or a tuple of values in the order of the fields; without a schema any value that
            ``trainfeed.samples.ValueCodec`` takes.
        num_shards: 1 to 100,000, because file names have five digits.
        name_prefix: The files are ``<prefix>-aaaaa-of-bbbbb``; ``bbbbb`` is the largest index.
        seed: Seed of the shuffle.
        codec: Compression of the file format in ``options``, or its name.
        schema: Schema of typed samples; None for values of any type.
        options: Options that are seldom changed.

    Returns:
        The manifest, which is also written beside the files as ``<prefix>.shards.json``.

    Raises:
        ConfigError: A number, the prefix, the codec or an option is out of range.
        SampleShapeError: A sample does not match the schema, or contains a type that cannot be
            stored.
        ConflictError: A folder has the name of a shard.
        QuotaExceededError: The disk is full.
        StorageError: The file system refused an operation. Errors of the reader are raised
            unchanged.
    """
    target = ConversionTarget(
        Path(local_target(output_path)).absolute(),
        num_shards,
        name_prefix,
        seed,
        Encoding.VALUE if schema is None else Encoding.TYPED,
        schema,
        options.shard_format(codec),
    )
    encode = record_encoder(target.encoding, schema, target.shard_format.file_format)

    def read(runs: RunBuilder) -> None:
        runs.add_all(encode(reader()))

    return target.fill(read, options)


def convert_arrays(  # noqa: PLR0913 (as for convert)
    output_path: str | os.PathLike[str],
    reader: ArraysReader | BlockReader,
    num_shards: int,
    name_prefix: str,
    *,
    schema: Schema,
    seed: int = 0,
    codec: AnyCodec = Codec.NONE,
    options: ConvertOptions = _DEFAULTS,
) -> ShardManifest:
    """Write the samples of a reader of blocks to shards, for schemas of fixed size.

    The files equal those that ``convert`` makes of the same samples, and take a fraction of the
    time.

    Args:
        output_path: See ``convert``.
        reader: Called once; yields blocks of samples: structured arrays of
            ``schema.record_dtype``, shape ``(n,)``, or mappings from field to array of shape
            ``(n, *field.shape)``. A block is copied before the next one is requested. A
            ``BlockReader`` of ``trainfeed.readers`` gives its blocks, whose columns are the
            fields.
        num_shards: See ``convert``.
        name_prefix: See ``convert``.
        schema: Schema of the samples.
        seed: Seed of the shuffle.
        codec: See ``convert``.
        options: See ``convert``.

    Returns:
        The manifest.

    Raises:
        ConfigError: The schema is not of fixed size; or see ``convert``.
        SampleShapeError: A block does not match the schema.
        StorageError: See ``convert``.
    """
    target = ConversionTarget(
        Path(local_target(output_path)).absolute(),
        num_shards,
        name_prefix,
        seed,
        Encoding.TYPED,
        schema,
        options.shard_format(codec),
    )
    encoder = ArrayEncoder(schema, target.shard_format.file_format)

    def read(runs: RunBuilder) -> None:
        with open_reader(_blocks_of(reader)) as blocks:
            for block in blocks:
                runs.add_all(encoder.encode(block))

    return target.fill(read, options)


def _blocks_of(reader: ArraysReader | BlockReader) -> ArraysReader:
    # A call of such a reader would give its samples one by one.
    return reader.blocks if isinstance(reader, BlockReader) else reader


# --- Converts files of any format to shards, for the commands and the DAG

Paths: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"

_CONVERT_DEFAULTS: Final = ConvertOptions()
_SOURCE_DEFAULTS: Final = SourceOptions()


@dataclass(frozen=True)
class FileInputs:
    """Files that hold the same kind of samples.

    Attributes:
        files: The files, in the order of their samples.
        encoding: Encoding of the samples.
        schema: Schema of typed samples; None for other encodings.
    """

    files: tuple[SampleFile, ...]
    encoding: Encoding
    schema: Schema | None


def open_inputs(paths: Iterable[Path], options: SourceOptions) -> FileInputs:
    """Open all files and check that they hold the same kind of samples.

    Raises:
        ConfigError: There is no file, or two hold different kinds of samples.
        FormatError: A file does not have the format that its name announces.
    """
    files = tuple(open_sample_file(path, options) for path in paths)
    if not files:
        raise ConfigError("expected at least one file to read, got none")
    first = files[0]
    for file in files:
        if (file.encoding, file.schema) != (first.encoding, first.schema):
            raise ConfigError(
                f"expected files of the same samples, {first.path} has {_described(first)} and"
                f" {file.path} has {_described(file)}"
            )
        if file.times != first.times:
            raise ConfigError(
                f"expected dates and times of one unit, {first.path} has {dict(first.times)} and"
                f" {file.path} has {dict(file.times)}; numbers of both would look alike; cast the"
                " columns of one of them"
            )
    return FileInputs(files, first.encoding, first.schema)


def convert_files(  # noqa: PLR0913 (as for convert)
    inputs: Paths,
    output_path: str | os.PathLike[str],
    num_shards: int,
    name_prefix: str,
    *,
    seed: int = 0,
    codec: AnyCodec = Codec.NONE,
    source: SourceOptions = _SOURCE_DEFAULTS,
    options: ConvertOptions = _CONVERT_DEFAULTS,
) -> ShardManifest:
    """Write the samples of files to shards, one input file after the other; see ``convert``.

    Args:
        inputs: A path, a list of paths with commas, a glob, or a list of these; a folder stands
            for its set of shards.
        output_path: See ``convert``.
        num_shards: See ``convert``.
        name_prefix: See ``convert``.
        seed: See ``convert``.
        codec: See ``convert``.
        source: Properties of the inputs that the files themselves do not state.
        options: See ``convert``.

    Returns:
        The manifest.

    Raises:
        NotFoundError: A part of ``inputs`` matches no file.
        FormatError: A file is damaged.
        ConfigError: The files hold different kinds of samples; or see ``convert``.
        StorageError: See ``convert``.
    """
    paths = paths_of(inputs)
    # A version in a bucket is no set of files, and never changes.
    sets = SetWatch(path for path in paths if shard_in_bucket(path) is None)
    with sets.explains():
        opened = open_inputs(paths, source)
    target = ConversionTarget(
        Path(local_target(output_path)).absolute(),
        num_shards,
        name_prefix,
        seed,
        opened.encoding,
        opened.schema,
        options.shard_format(codec),
    )

    def read(runs: RunBuilder) -> None:
        with sets.explains():
            for file in opened.files:
                add_file(runs, file, target)
        sets.require_sizes()
        sets.require_unchanged()

    return target.fill(read, options)


def add_file(runs: RunBuilder, file: SampleFile, target: ConversionTarget) -> None:
    """Add the samples of a file to a builder, as records of the target.

    Raises:
        FormatError: The file is damaged.
    """
    container = target.shard_format.file_format
    # From the fastest way to the slowest: records are copied unchanged, arrays are encoded by
    # blocks, other samples one by one.
    if file.records is not None and file.container == container:
        runs.add_all(file.records())
    elif file.blocks is not None and target.schema is not None:
        encoder = ArrayEncoder(target.schema, container)
        for block in file.blocks():
            runs.add_all(encoder.encode(block))
    else:
        encode = record_encoder(target.encoding, target.schema, container)
        try:
            runs.add_all(encode(file.samples()))
        except SampleShapeError as error:
            error.args = (f"{file.path}: {error.args[0]}",)
            raise


def _described(file: SampleFile) -> str:
    return f"{file.encoding} samples of {file.schema.to_json()}" if file.schema else file.encoding

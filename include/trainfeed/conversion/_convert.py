"""Converts the samples of a reader to shards, shuffled globally in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from numpy.typing import NDArray

from trainfeed.conversion._conversion_options import AnyCodec, ConvertOptions
from trainfeed.conversion.samplefiles import ArrayEncoder, record_encoder
from trainfeed.conversion.shardset import ConversionTarget
from trainfeed.conversion.sorting import RunBuilder
from trainfeed.datacenters import local_target
from trainfeed.dataset.shards import Encoding, ShardManifest
from trainfeed.readers import BlockReader, open_reader
from trainfeed.recordio import Codec
from trainfeed.samples import Schema

__all__ = ["AnyReader", "ArraysReader", "convert", "convert_arrays"]

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

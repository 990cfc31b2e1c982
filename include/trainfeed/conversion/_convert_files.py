"""Converts files of any format to shards, for the commands and the DAG."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from trainfeed.conversion._conversion_options import AnyCodec, ConvertOptions
from trainfeed.conversion.samplefiles import (
    ArrayEncoder,
    SampleFile,
    SourceOptions,
    open_sample_file,
    paths_of,
    record_encoder,
)
from trainfeed.conversion.shardset import ConversionTarget
from trainfeed.conversion.sorting import RunBuilder
from trainfeed.datacenters import local_target
from trainfeed.dataset.shards import Encoding, ShardManifest
from trainfeed.errors import ConfigError, SampleShapeError
from trainfeed.paths import SetWatch
from trainfeed.recordio import Codec
from trainfeed.samples import Schema

__all__ = ["FileInputs", "add_file", "convert_files", "open_inputs"]

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
    sets = SetWatch(paths)
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

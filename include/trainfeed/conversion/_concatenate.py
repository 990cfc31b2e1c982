"""Joins record files to one file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from trainfeed.conversion._conversion_options import OnProgress
from trainfeed.conversion._convert_files import open_inputs
from trainfeed.conversion._foreign_input import open_input
from trainfeed.conversion.samplefiles import Format, SampleFile, SourceOptions, write_sidecar
from trainfeed.datacenters import local_source, local_target
from trainfeed.dataset.shards import Encoding
from trainfeed.errors import ConfigError, FormatError
from trainfeed.paths import FilePath, NewFile, write_all
from trainfeed.recordio import verify_shard
from trainfeed.tfrecord import TFRecordWriter

__all__ = ["merge_files"]

_COPY_BYTES: Final = 1 << 20


def merge_files(
    paths: Sequence[FilePath], output: FilePath, *, on_progress: OnProgress | None = None
) -> int:
    """Write the records of files to a new file, in order.

    Chunks of RecordIO are verified and copied unchanged; records of TFRecord are written again,
    without compression.

    Args:
        paths: The files.
        output: The new file.
        on_progress: Called with the number of files and the number of files read so far.

    Returns:
        The number of records.

    Raises:
        ConflictError: A file exists at the path ``output``.
        ConfigError: The files hold different samples, or are not all RecordIO or all TFRecord.
        FormatError: A file is damaged; nothing was written.
    """
    inputs = open_inputs(map(Path, map(local_source, paths)), SourceOptions())
    formats = {file.file_format for file in inputs.files}
    if len(formats) > 1 or not formats <= {Format.RECORDIO, Format.TFRECORD}:
        raise ConfigError(
            f"expected files of RecordIO, or files of TFRecord, got {sorted(formats)}; convert them"
            " first"
        )
    append = _append_chunks if formats == {Format.RECORDIO} else _append_records
    output, count = Path(local_target(output)), 0
    with NewFile(output) as new:
        for number, file in enumerate(inputs.files):
            if on_progress is not None:
                on_progress(len(inputs.files), number)
            count += append(file, new)
        if inputs.encoding is not Encoding.BYTES:
            write_sidecar(output, inputs.encoding, inputs.schema)
    return count


def _append_chunks(file: SampleFile, new: NewFile) -> int:
    with open_input(file.path) as source:
        try:
            count = verify_shard(source).num_records
        except FormatError as error:
            error.path = str(file.path)
            raise
        source.seek(0)
        while piece := source.read(_COPY_BYTES):
            write_all(new.file, piece)
    return count


def _append_records(file: SampleFile, new: NewFile) -> int:
    with TFRecordWriter(new.file) as writer:
        for record in file.records() if file.records else ():
            writer.write(record)
    return writer.num_records

"""Record files one after another in one file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from trainfeed.conversion._files import open_inputs
from trainfeed.conversion._input import open_input
from trainfeed.conversion._manifest import Encoding
from trainfeed.conversion._sidecar import write_sidecar
from trainfeed.conversion._sniff import Format
from trainfeed.conversion._sources import SourceOptions
from trainfeed.errors import ConfigError
from trainfeed.paths import NewFile, write_all
from trainfeed.recordio import verify_shard
from trainfeed.tfrecord import TFRecordWriter

__all__ = ["merge_files"]

_COPY_BYTES: Final = 1 << 20


def merge_files(paths: Sequence[Path], output: Path) -> int:
    """Write the records of files to a new one, in order.

    Chunks of RecordIO are verified and copied as they are; records of TFRecord are written anew,
    without compression.

    Returns:
        How many records there are.

    Raises:
        ConflictError: The new name is taken.
        ConfigError: The files hold different samples, or are not all RecordIO or all TFRecord.
        FormatError: A file is damaged; nothing was written.
    """
    inputs = open_inputs(paths, SourceOptions())
    formats = {file.file_format for file in inputs.files}
    if len(formats) > 1 or not formats <= {Format.RECORDIO, Format.TFRECORD}:
        raise ConfigError(
            f"expected files of RecordIO, or files of TFRecord, got {sorted(formats)}; convert them"
            " first"
        )
    new = NewFile(output)
    try:
        if formats == {Format.RECORDIO}:
            count = _append_chunks(paths, new)
        else:
            count = 0
            with TFRecordWriter(new.file) as writer:
                for file in inputs.files:
                    for record in file.records() if file.records else ():
                        writer.write(record)
                        count += 1
        if inputs.encoding is not Encoding.BYTES:
            write_sidecar(output, inputs.encoding, inputs.schema)
        new.commit()
    except BaseException:
        new.abandon()
        raise
    return count


def _append_chunks(paths: Sequence[Path], new: NewFile) -> int:
    count = 0
    for path in paths:
        with open_input(path) as source:
            count += verify_shard(source).num_records
            source.seek(0)
            while piece := source.read(_COPY_BYTES):
                write_all(new.file, piece)
    return count

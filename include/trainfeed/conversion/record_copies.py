"""New record files from old ones: several joined to one, and what is whole of damaged ones."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from trainfeed.conversion.foreign_input import open_input
from trainfeed.conversion.formats import Format, SampleFile, SourceOptions
from trainfeed.conversion.input_paths import require_file
from trainfeed.conversion.record_files import OnProgress, known_encoding, write_sidecar
from trainfeed.conversion.to_shards import open_inputs
from trainfeed.core.datacenters import local_source, local_target
from trainfeed.damage import DamagePolicy, DamageReport, DroppedRange
from trainfeed.errors import ConfigError, FormatError, TruncatedError
from trainfeed.files import FilePath, NewFile, UnfinishedFile, write_all
from trainfeed.recordio import ChunkBuffers, iter_chunks, verify_shard
from trainfeed.tfrecord import TFRecordWriter, iter_records
from trainfeed.versions.shards import Encoding

# --- Joins record files to one file

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
        ConfigError: The files hold different samples, or are not all RecordIO or all TFRecord; or
            one is in a bucket.
        FormatError: A file is damaged; nothing was written.
    """
    for path in paths:
        require_file(path)
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


# --- Repairs damaged record files: copies their whole chunks or records to new files

_SKIP: Final = DamagePolicy.skip_chunk(max=sys.maxsize)


@dataclass(frozen=True)
class RepairReport:
    """The result of a repair.

    Attributes:
        num_records: Number of records in the new file.
        num_chunks: Number of chunks in the new file; 0 for TFRecord.
        dropped: Ranges of the old file that the new one lacks.
    """

    num_records: int
    num_chunks: int
    dropped: tuple[DroppedRange, ...]


def repair_file(
    path: FilePath, output: FilePath, file_format: Format, *, on_progress: OnProgress | None = None
) -> RepairReport:
    """Write the whole parts of a damaged file to a new file.

    For RecordIO every whole chunk is copied, byte for byte; for TFRecord every whole record. See
    ``DamagePolicy.skip_chunk`` for the way in which they are found. A compressed TFRecord file is
    kept up to its first damage, and the new file is not compressed. Encoding and schema of the old
    file, if known, are written beside the new one.

    Args:
        path: The damaged file.
        output: The new file.
        file_format: RecordIO or TFRecord.
        on_progress: For RecordIO called with the size of the file and the bytes read so far.

    Raises:
        ConflictError: A file exists at the path ``output``.
        ConfigError: The format is neither RecordIO nor TFRecord, or the file is in a bucket.
        FormatError: The file has another layout of RecordIO, or is built so that the search for
            whole parts would take too long; the file became shorter while it was read; or the
            file with its schema, or the manifest of its set, is damaged.
    """
    path, output = Path(local_source(path)), Path(local_target(output))
    require_file(path)
    encoding, schema = known_encoding(path)
    with NewFile(output) as unfinished:
        report = _repair(path, unfinished.file, file_format, on_progress)
        if encoding is not Encoding.BYTES:
            write_sidecar(output, encoding, schema)
    return report


def repair_in_place(
    path: FilePath, file_format: Format, *, on_progress: OnProgress | None = None
) -> RepairReport:
    """Replace a damaged file by its whole parts; see ``repair_file``.

    Files beside it are unchanged. The new file is called ``<file>.<hex>.tmp`` until it is complete.

    Raises:
        ConfigError: The format is neither RecordIO nor TFRecord.
        FormatError: See ``repair_file``.
    """
    path = Path(local_target(path))
    with UnfinishedFile(path) as unfinished:
        report = _repair(path, unfinished.file, file_format, on_progress)
        unfinished.replace()
    return report


def _repair(
    path: Path, file: BinaryIO, file_format: Format, on_progress: OnProgress | None
) -> RepairReport:
    if file_format is Format.RECORDIO:
        return _repair_recordio(path, file, on_progress)
    if file_format is Format.TFRECORD:
        return _repair_tfrecord(path, file)
    raise ConfigError(f"expected RecordIO or TFRecord to repair, got {file_format}")


def _repair_recordio(path: Path, file: BinaryIO, on_progress: OnProgress | None) -> RepairReport:
    report = DamageReport()
    num_chunks = num_records = 0
    with open_input(path) as source:
        for info, _ in iter_chunks(path, buffers=ChunkBuffers(), on_damage=_SKIP, report=report):
            source.seek(info.offset_bytes)
            left = info.end_bytes - info.offset_bytes
            while left:
                if not (piece := source.read(min(left, _COPY_BYTES))):
                    raise TruncatedError(
                        f"expected {left} more bytes of a chunk that was whole a moment ago, the"
                        " file ends: another process writes to it; nothing was kept; repair a copy"
                        " of the file, or repair it when its writer has ended",
                        path=str(path),
                        offset_bytes=info.end_bytes - left,
                    )
                write_all(file, piece)
                left -= len(piece)
            num_chunks, num_records = num_chunks + 1, num_records + info.num_records
            if on_progress is not None:
                on_progress(os.fstat(source.fileno()).st_size, info.end_bytes)
    return RepairReport(num_records, num_chunks, tuple(report.dropped))


def _repair_tfrecord(path: Path, file: BinaryIO) -> RepairReport:
    report = DamageReport()
    with TFRecordWriter(file) as writer:
        for record in iter_records(path, on_damage=_SKIP, report=report):
            writer.write(record)
    return RepairReport(writer.num_records, 0, tuple(report.dropped))

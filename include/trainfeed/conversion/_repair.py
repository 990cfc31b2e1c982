"""Damaged files → new files of what is whole."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from trainfeed.conversion._input import open_input
from trainfeed.conversion._sniff import Format
from trainfeed.errors import ConfigError, FormatError
from trainfeed.paths import NewFile, write_all
from trainfeed.recordio import ChunkBuffers, DamagePolicy, DamageReport, DroppedRange, iter_chunks
from trainfeed.tfrecord import TFRecordWriter, iter_records

__all__ = ["RepairReport", "repair_file"]

_COPY_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class RepairReport:
    """What a repair kept and dropped.

    Attributes:
        num_records: Records in the new file.
        num_chunks: Chunks in the new file, 0 for TFRecord.
        dropped: Ranges of the old file that are not in it.
    """

    num_records: int
    num_chunks: int
    dropped: tuple[DroppedRange, ...]


def repair_file(path: Path, output: Path, file_format: Format) -> RepairReport:
    """Write what is whole of a file to a new one.

    Of RecordIO every whole chunk is copied, byte for byte. A TFRecord file has no marks to find the
    next record by: it is kept up to the first damage.

    Raises:
        ConflictError: The new name is taken.
        ConfigError: The format is neither of the two.
        FormatError: The file is in another layout of RecordIO.
    """
    if file_format not in {Format.RECORDIO, Format.TFRECORD}:
        raise ConfigError(f"expected RecordIO or TFRecord to repair, got {file_format}")
    with _new_file(output) as file:
        if file_format is Format.RECORDIO:
            return _repair_recordio(path, file)
        return _repair_tfrecord(path, file)


def _repair_recordio(path: Path, file: BinaryIO) -> RepairReport:
    report = DamageReport()
    num_chunks = num_records = 0
    policy = DamagePolicy.skip_chunk(max=sys.maxsize)
    with open_input(path) as source:
        for info, _ in iter_chunks(path, buffers=ChunkBuffers(), on_damage=policy, report=report):
            source.seek(info.offset_bytes)
            left = info.end_bytes - info.offset_bytes
            while left:
                piece = source.read(min(left, _COPY_BYTES))
                write_all(file, piece)
                left -= len(piece)
            num_chunks, num_records = num_chunks + 1, num_records + info.num_records
    return RepairReport(num_records, num_chunks, tuple(report.dropped))


def _repair_tfrecord(path: Path, file: BinaryIO) -> RepairReport:
    dropped: tuple[DroppedRange, ...] = ()
    with TFRecordWriter(file) as writer:
        try:
            for record in iter_records(path):
                writer.write(record)
        except FormatError as error:
            end = path.stat().st_size
            start = error.offset_bytes or 0
            dropped = (DroppedRange(str(path), start, end, None, str(error.args[0])),)
    return RepairReport(writer.num_records, 0, dropped)


@contextmanager
def _new_file(path: Path) -> Iterator[BinaryIO]:
    new = NewFile(path)
    try:
        yield new.file
        new.commit()
    except BaseException:
        new.abandon()
        raise

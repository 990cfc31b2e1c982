"""Plans and reads log files, one folder per interval; reads the first records for a preview."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

import cramjam
import pyarrow as pa

from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder
from trainfeed.intervals import Interval
from trainfeed.pipeline.inputs._log_absence import logs_of
from trainfeed.pipeline.inputs._log_files import check_folder, iter_log
from trainfeed.pipeline.inputs._log_inputs import LogInputs, find_interval_logs, log_location
from trainfeed.pipeline.inputs._source_reader import Head, SourceReader
from trainfeed.pipeline.plans import PlannedRange
from trainfeed.pipeline.stage import Stage
from trainfeed.sources import LineRange, LogFile, iter_lines
from trainfeed.specification import DatasetSpec, LogsSourceSpec, expand_path
from trainfeed.storage import Location

__all__ = [
    "LogReader",
]

_COPIES: Final = "logs"
# Modification time of the copies, old enough for every rule that waits for a stable folder.
_LONG_AGO_S: Final = 0


class LogReader(SourceReader):
    """Reads byte ranges of log files, and compares every file and its folder with the plan."""

    @contextmanager
    def open(
        self, spec: DatasetSpec, env: Environment, folder: DatasetFolder, interval: Interval
    ) -> Iterator[LogInputs]:
        """Look at the folder of the interval.

        Raises:
            StorageError: The file system does not answer.
        """
        yield LogInputs(spec, env, folder, interval)

    def check(self, stage: Stage, sources: Iterable[str]) -> None:
        """Compare the folder of the interval, and the files of ``sources``, with the plan.

        Raises:
            SourceReplacedError: Files changed, vanished, were replaced or added; it names them.
        """
        check_folder(stage, sources)

    def batches(self, stage: Stage, piece: PlannedRange) -> Iterator[pa.RecordBatch]:
        """Yield the lines of a range of bytes.

        Raises:
            SourceReplacedError: The file is not the one that was planned.
            FormatError: The file does not decompress, or has a line that is too long.
            StorageError: The file cannot be read.
        """
        return iter_log(stage, piece)

    def head(
        self, spec: DatasetSpec, interval: Interval, env: Environment, place: Path, limit: int
    ) -> Head:
        """Copy the first lines, and return an environment that finds the copies.

        Raises:
            WindowOpenError: The folder of the interval is not complete.
            FormatError: A file does not decompress, or has a line that is too long.
            StorageError: A file cannot be read.
        """
        return _with_log_heads(spec, interval, env, place / _COPIES, limit)


def _with_log_heads(
    spec: DatasetSpec, interval: Interval, env: Environment, place: Path, limit: int
) -> Head:
    """Copy the first lines of the interval's log files; return an environment with the copies.

    Args:
        spec: A data set of log files.
        interval: The interval.
        env: Folders and connections.
        place: Folder for the copies, which have the names and the compression of the originals.
            Files behind the last wanted line are not copied.
        limit: Number of lines in all, divided among the files.

    Raises:
        WindowOpenError: The folder of the interval is not complete.
        FormatError: A file does not decompress, or has a line that is too long.
        StorageError: A file cannot be read.
    """
    logs = logs_of(spec)
    path = expand_path(logs.path, interval)
    folder = log_location(env, logs.connection, path)
    copies = place / path.lstrip("/")
    copies.mkdir(parents=True)
    found = find_interval_logs(logs, env, interval)
    files = found.files
    left = limit
    for number, file in enumerate(files):
        if not left:
            break
        # An equal share of the lines that are left, rounded up: short files leave more to others.
        share = -(-left // (len(files) - number))
        lines = list(islice(_lines(folder / file.info.name, file, logs), share))
        left -= len(lines)
        _write(copies / file.info.name, b"".join(lines), file.compression)
    if logs.marker is not None:
        (copies / logs.marker).touch()
    for copy in (*copies.iterdir(), copies):
        os.utime(copy, (_LONG_AGO_S, _LONG_AGO_S))
    seen = replace(env, logs={**env.logs, logs.connection: str(place)})
    return Head(seen, found.entries.passed_over)


def _lines(location: Location, file: LogFile, logs: LogsSourceSpec) -> Iterator[bytes]:
    size = file.info.size_bytes
    span = LineRange(
        location=location,
        compression=file.compression,
        size_bytes=size,
        start=0,
        end=size,
        timestamp_ms=0,
        max_line_bytes=logs.max_line_bytes,
    )
    for batch in iter_lines(span):
        offsets, values = (batch.column(name).to_pylist() for name in ("offset", "value"))
        following = [*offsets[1:], offsets[-1] + len(values[-1]) + 1]
        for offset, value, end in zip(offsets, values, following, strict=True):
            # A value has no line end, but the copy needs the original one: its offsets must equal
            # those of a build. A distance of two bytes between two lines was CR LF.
            yield value + (b"\r\n" if end - offset > len(value) + 1 else b"\n")


def _write(path: Path, data: bytes, compression: str) -> None:
    if compression == "gzip":
        data = gzip.compress(data)
    elif compression == "zstd":
        data = bytes(cramjam.zstd.compress(data))
    path.write_bytes(data)

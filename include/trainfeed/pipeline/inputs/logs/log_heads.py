"""The first records of the log files of an interval, copied for a preview."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import cramjam

from trainfeed.core.config import Environment
from trainfeed.core.intervals import Interval
from trainfeed.files.stores import Location
from trainfeed.pipeline.inputs.line_fields import CSV
from trainfeed.pipeline.inputs.logs.interval_logs import find_interval_logs, log_location, logs_of
from trainfeed.pipeline.inputs.protocols import Head
from trainfeed.pipeline.inputs.row_files import RowRange, copy_head
from trainfeed.sources import LineRange, LogFile, iter_lines
from trainfeed.specification import DatasetSpec, LogsSourceSpec, expand_path

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_COPIES: Final = "logs"
# Modification time of the copies, old enough for every rule that waits for a stable folder.
_LONG_AGO_S: Final = 0
_COMPRESSORS: Final[Mapping[str, Callable[[], Any]]] = {
    "gzip": cramjam.gzip.Compressor,
    "bz2": cramjam.bzip2.Compressor,
    "lz4": cramjam.lz4.Compressor,
    "snappy": cramjam.snappy.Compressor,
    "zstd": cramjam.zstd.Compressor,
}
# Bytes that are written or compressed at once.
_FILL_BYTES: Final = 1 << 20


def with_log_heads(
    spec: DatasetSpec, interval: Interval, env: Environment, place: Path, limit: int
) -> Head:
    """Copy the first records of the interval's log files; return an environment with the copies.

    Args:
        spec: A data set of log files.
        interval: The interval.
        env: Folders and connections.
        place: An empty folder for the copies, which have the names and the compression of the
            originals. Files behind the last wanted record are not copied.
        limit: Number of records in all, divided among the files; headers of CSV are not counted.

    Raises:
        WindowOpenError: The folder of the interval is not complete.
        FormatError: A file does not decompress, or has a line that is too long.
        StorageError: A file cannot be read.
    """
    logs = logs_of(spec)
    path = expand_path(logs.path, interval, logs.zone)
    folder = log_location(env, logs.connection, path)
    # Stores of two members of a union may have equal paths.
    store = place / _COPIES / logs.connection
    copies = store / path.lstrip("/")
    found = find_interval_logs(spec, env, interval)
    for base in found.bases:
        (copies / base).mkdir(parents=True, exist_ok=True)
        if logs.marker is not None:
            (copies / base / logs.marker).touch()
    files = found.files
    left = limit
    for number, file in enumerate(files):
        if not left:
            break
        # An equal share of the lines that are left, rounded up: short files leave more to others.
        share = -(-left // (len(files) - number))
        copy = copies / file.info.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if not logs.is_of_lines:
            left -= copy_head(copy, _head_range(folder / file.info.name, file, logs), logs, share)
            continue
        # The header of a file of CSV is a record that yields no sample: it comes besides.
        header = logs.format == CSV
        span = _whole_file(folder / file.info.name, file, logs)
        left -= max(0, _copy_lines(copy, span, share + header) - header)
    for copy in (*copies.rglob("*"), copies):
        os.utime(copy, (_LONG_AGO_S, _LONG_AGO_S))
    seen = replace(env, logs={**env.logs, logs.connection: str(store)})
    return Head(seen, found.entries.passed_over)


def _head_range(location: Location, file: LogFile, logs: LogsSourceSpec) -> RowRange:
    size = file.info.size_bytes
    return RowRange(location, logs.format, file.info.name, size, 0, size, 0)


def _whole_file(location: Location, file: LogFile, logs: LogsSourceSpec) -> LineRange:
    size = file.info.size_bytes
    return LineRange(
        location=location,
        compression=file.compression,
        size_bytes=size,
        start=0,
        end=size,
        timestamp_ms=0,
        max_line_bytes=logs.max_line_bytes,
        needs_lf=logs.cut_line == "fail",
        cuts_long=logs.long_lines == "quarantine",
    )


def _copy_lines(path: Path, span: LineRange, limit: int) -> int:
    """Copy the first lines of a file; return their number."""
    copied = 0
    with closing(_lines(span)) as lines, _created(path, span.compression) as copy:
        for value, rest_bytes, end in islice(lines, limit):
            copy.write(value)
            _fill(copy, rest_bytes, is_plain=span.compression == "none")
            copy.write(end)
            copied += 1
    return copied


def _lines(span: LineRange) -> Generator[tuple[bytes, int, bytes]]:
    """Yield value, number of further bytes and end of every line."""
    before: tuple[int, bytes] | None = None
    for batch in iter_lines(span):
        offsets, values = (batch.column(name).to_pylist() for name in ("offset", "value"))
        for offset, value in zip(offsets, values, strict=True):
            if before is not None:
                # A value has no line end, but the copy needs the original one: its offsets must
                # equal those of a build. A distance of two bytes between two lines was CR LF, a
                # larger one the rest of a line that is too long.
                rest = offset - before[0] - len(before[1]) - 2
                yield before[1], max(0, rest), b"\r\n" if rest >= 0 else b"\n"
            before = offset, value
    if before is not None:
        # Nothing follows, so its end may be of any length: with CR LF, a CR before it stays.
        yield before[1], 0, b"\r\n"


def _fill(copy: io.BufferedWriter, num_bytes: int, *, is_plain: bool) -> None:
    """Write the rest of a line that is too long: no record has it, and memory may not hold it."""
    blanks = b" " * min(num_bytes, _FILL_BYTES)
    if is_plain:
        # What is skipped takes no space on a disk. Blanks before it: the head of a file of text
        # has no bytes of 0.
        copy.write(blanks)
        copy.seek(num_bytes - len(blanks), os.SEEK_CUR)
        return
    while num_bytes:
        num_bytes -= copy.write(blanks[:num_bytes])


def _created(path: Path, compression: str) -> io.BufferedWriter:
    file = path.open("wb")
    if compression == "none":
        return file
    return io.BufferedWriter(_Compressed(file, _COMPRESSORS[compression]()), _FILL_BYTES)


class _Compressed(io.RawIOBase):
    """A compressed file that is written in pieces.

    Args:
        file: The file, which is closed with this one.
        compressor: Compresses the pieces.
    """

    def __init__(self, file: BinaryIO, compressor: Any) -> None:
        self._file = file
        self._compressor = compressor

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        """Compress a piece, and write what it became."""
        piece = bytes(data)
        self._compressor.compress(piece)
        self._file.write(bytes(self._compressor.flush()))
        return len(piece)

    def close(self) -> None:
        """Write the end of the stream."""
        if not self.closed:
            with self._file:
                self._file.write(bytes(self._compressor.finish()))
        super().close()

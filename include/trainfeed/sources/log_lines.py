"""Log files, read line by line as batches of landing records."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trainfeed.errors import FormatError, TruncatedError
from trainfeed.files.stores import Location
from trainfeed.sources.compressed_logs import decompressed
from trainfeed.sources.landing import BATCH_ROWS, LANDING_SCHEMA
from trainfeed.sources.log_folders import (
    COMPRESSIONS,
    HEAD_BYTES,
    format_of_bytes,
    setting_for,
)

# --- Reads log files line by line, as batches of ``LANDING_SCHEMA``

# The reason with which lines are quarantined of which only the beginning is read.
LINE_TOO_LONG: Final = "line_too_long"
# Bytes read at once: about the memory for reading, besides one line.
_BLOCK_BYTES: Final = 4 << 20
# Bytes read at once behind the end of the range, where only the rest of one line is needed.
_REST_BYTES: Final = 64 << 10
_LF, _CR = 10, 13


@dataclass(frozen=True)
class LineRange:
    """A range of a log file, and the settings for its lines.

    Attributes:
        location: The file.
        compression: none, or one of ``decompressed``.
        size_bytes: Length of the file as stored.
        start: First byte of the range, as stored; 0 unless the file is plain.
        end: Byte behind the range, as stored; ``size_bytes`` unless the file is plain.
        timestamp_ms: Timestamp of every record, because a line has no time of its own.
        max_line_bytes: Largest line.
        needs_lf: Whether a last line without LF is an error.
        cuts_long: Whether a longer line is a record of its first ``max_line_bytes`` bytes and one
            more, by which it is known; otherwise it is an error.
    """

    location: Location
    compression: str
    size_bytes: int
    start: int
    end: int
    timestamp_ms: int
    max_line_bytes: int
    needs_lf: bool = False
    cuts_long: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end <= self.size_bytes:
            raise ValueError(f"expected 0 <= start <= end <= size_bytes, got {self}")
        if self.compression != "none" and (self.start, self.end) != (0, self.size_bytes):
            raise ValueError(f"expected the whole of a compressed file, got {self}")


def iter_lines(span: LineRange) -> Iterator[pa.RecordBatch]:
    """Yield the lines that start in the range, by ascending offset.

    Returns:
        Batches of ``LANDING_SCHEMA``, 1 to ``BATCH_ROWS`` rows each; they stay valid.

    Raises:
        FormatError: The file does not decompress, is of another format, or has a line that is too
            long.
        TruncatedError: The file ends before ``size_bytes``.
        StorageError: The file cannot be read.
    """
    with closing(span.location.open_read()) as file:
        if span.compression == "none":
            yield from _iter_plain(file, span)
        else:
            yield from _iter_compressed(file, span)


def _iter_plain(file: BinaryIO, span: LineRange) -> Iterator[pa.RecordBatch]:
    if not span.start:
        _refuse_other_format(file.read(HEAD_BYTES), span)
    start = _first_line(file, span)
    if start is None:
        return
    lines = _Lines(span, start, stop=span.end)
    file.seek(start)
    position = start
    while position < span.size_bytes and not lines.done:
        wanted = min(_BLOCK_BYTES, max(span.end - position, _REST_BYTES))
        block = _read(file, span, position, wanted)
        position += len(block)
        yield from lines.feed(block)
    yield from lines.end()


def _iter_compressed(file: BinaryIO, span: LineRange) -> Iterator[pa.RecordBatch]:
    _refuse_no_bytes(span)
    lines = _Lines(span, 0, stop=None)
    for number, block in enumerate(_iter_decompressed(file, span)):
        if not number:
            _refuse_other_format(block[:HEAD_BYTES], span)
        yield from lines.feed(block)
    yield from lines.end()


def _refuse_no_bytes(span: LineRange) -> None:
    """Refuse a compressed file of 0 bytes: it has a header even without any line."""
    if not span.size_bytes:
        raise FormatError(
            f"expected {span.compression}, as the file's name says, got 0 bytes; nothing was"
            " published; write the file again, or remove or hide it if no line is missing",
            path=span.location.uri,
        )


def _iter_decompressed(file: BinaryIO, span: LineRange) -> Iterator[bytes]:
    """Yield the content of all members or frames of the file, one after another."""
    try:
        with closing(decompressed(file, span.compression)) as stream:
            while block := stream.read(_BLOCK_BYTES):
                yield block
    except (pa.ArrowException, EOFError, OSError, ValueError, zlib.error) as error:
        # An error with errno comes from the operating system, and does not mean damaged bytes.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise FormatError(
            f"expected {span.compression}, as the file's name says, got data that do not"
            f" decompress: {str(error).lower()}; nothing was published; replace the file or rename"
            " it",
            path=span.location.uri,
        ) from error


def _refuse_other_format(head: bytes, span: LineRange) -> None:
    """Refuse a file whose first bytes are those of another format: no lines can be read."""
    found = format_of_bytes(head)
    if found is None:
        return
    remedy = f"{setting_for(found)}write its records as lines of text, or move it out of the folder"
    if span.compression == "none":
        suffixes = [each.suffix for each in COMPRESSIONS if head.startswith(each.magic)]
        remedy = next((f"let the file's name end with {suffix}" for suffix in suffixes), remedy)
    raise FormatError(
        f"expected lines of text, got {found}, as the first bytes"
        f"{'' if span.compression == 'none' else ' of what was decompressed'} say; nothing was"
        f" published; {remedy}",
        path=span.location.uri,
    )


def _first_line(file: BinaryIO, span: LineRange) -> int | None:
    """Return the start of the first line in the range; None if no line starts in it."""
    if span.start == 0:
        return 0 if span.end else None
    # The search begins one byte before the range: if that byte is LF, a line starts with the range.
    position = span.start - 1
    file.seek(position)
    while position < span.end - 1:
        block = _read(file, span, position, min(_BLOCK_BYTES, span.end - 1 - position))
        found = block.find(b"\n")
        if found >= 0:
            return position + found + 1
        position += len(block)
    return None


def _read(file: BinaryIO, span: LineRange, position: int, num_bytes: int) -> bytes:
    block = file.read(min(num_bytes, span.size_bytes - position))
    if not block:
        raise TruncatedError(
            f"expected {span.size_bytes} bytes, got {position}", path=span.location.uri
        )
    return block


class _Lines:
    """Cuts blocks into lines.

    Args:
        span: The range, for limits and messages.
        offset: Offset of the first byte that ``feed`` will get.
        stop: Lines that start here or later are left out; None to keep all.
    """

    def __init__(self, span: LineRange, offset: int, *, stop: int | None) -> None:
        self._span = span
        self._stop = stop
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        # Bytes of the pending line that are not kept, because it is too long.
        self._dropped_bytes = 0
        self._offset = offset

    @property
    def done(self) -> bool:
        """Whether the next line does not belong to the range."""
        return self._stop is not None and self._offset >= self._stop

    def feed(self, block: bytes) -> Iterator[pa.RecordBatch]:
        """Yield the lines that end in ``block``."""
        end = block.rfind(b"\n") + 1
        if not end:
            self._keep(block)
            return
        if self._dropped_bytes:
            first_end = block.index(b"\n")
            yield self._long_line(self._dropped_bytes + first_end + 1)
            if self.done or first_end + 1 == len(block):
                return
            block, end = block[first_end + 1 :], end - first_end - 1
            if not end:
                self._keep(block)
                return
        data = b"".join((*self._pending, block[:end]))
        self._pending, self._pending_bytes = [], 0
        yield from self._cut(data)
        if end < len(block):
            self._keep(block[end:])

    def end(self) -> Iterator[pa.RecordBatch]:
        """Yield the last line if it has no LF."""
        if self._pending and not self.done:
            if self._span.needs_lf:
                raise self._cut_off()
            if self._dropped_bytes:
                yield self._long_line(self._dropped_bytes)
                return
            data = b"".join((*self._pending, b"\n"))
            # A CR at the very end stays in the record: it belongs to a line end only before LF.
            yield from self._cut(data, has_end=False)
        self._pending = []

    def _keep(self, block: bytes) -> None:
        if self._dropped_bytes:
            self._dropped_bytes += len(block)
            return
        self._pending.append(block)
        self._pending_bytes += len(block)
        if self._pending_bytes > self._span.max_line_bytes + 1:  # + 1: the last byte may be a CR
            if not self._span.cuts_long:
                raise self._too_long(self._offset)
            start = b"".join(self._pending)[: self._span.max_line_bytes + 1]
            self._dropped_bytes = self._pending_bytes - len(start)
            self._pending, self._pending_bytes = [start], len(start)

    def _long_line(self, rest_bytes: int) -> pa.RecordBatch:
        """Return the pending line, of which only the beginning was kept."""
        value = b"".join(self._pending)
        batch = self._batch(np.array([self._offset]), np.array([len(value)]), value)
        self._offset += len(value) + rest_bytes
        self._pending, self._pending_bytes, self._dropped_bytes = [], 0, 0
        return batch

    def _cut(self, data: bytes, *, has_end: bool = True) -> Iterator[pa.RecordBatch]:
        # ``data`` is whole lines: line i has the bytes from ``starts[i]`` to its LF at ``ends[i]``.
        symbols = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(symbols == _LF)
        starts = np.empty_like(ends)
        starts[0] = 0
        starts[1:] = ends[:-1] + 1
        lengths = ends - starts
        if has_end:
            has_cr = (lengths > 0) & (symbols[ends - 1] == _CR)
            if has_cr.any():
                lengths -= has_cr
                data = data.replace(b"\r\n", b"\n")
        is_long = lengths.max() > self._span.max_line_bytes
        if is_long and not self._span.cuts_long:
            raise self._too_long(self._offset + int(starts[lengths.argmax()]))
        # Positions from before CRs were removed: offsets count the bytes of the file.
        offsets = starts + self._offset
        self._offset += len(symbols)
        batch = self._batch(offsets, lengths, data.replace(b"\n", b""))
        if is_long:
            place = batch.schema.get_field_index("value")
            values = pc.binary_slice(batch.column(place), 0, self._span.max_line_bytes + 1)
            batch = batch.set_column(place, batch.schema.field(place), values)
        if self._stop is not None:
            batch = batch.slice(0, int(np.searchsorted(offsets, self._stop)))
        for row in range(0, len(batch), BATCH_ROWS):
            yield batch.slice(row, BATCH_ROWS)

    def _batch(
        self, offsets: NDArray[np.int64], lengths: NDArray[np.int64], values: bytes
    ) -> pa.RecordBatch:
        # Without line ends, ``values`` has the lines one after another: their cumulative lengths
        # are Arrow's ends, and nothing is copied.
        count = len(offsets)
        ends = np.zeros(count + 1, np.int32)
        np.cumsum(lengths, out=ends[1:])
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(values)]
        columns = {
            "offset": pa.array(offsets),
            "timestamp": pa.array(np.full(count, self._span.timestamp_ms, np.int64)),
            "timestamp_type": pa.array(np.zeros(count, np.int8)),
            "key": pa.nulls(count, pa.binary()),
            "value": pa.Array.from_buffers(pa.binary(), count, buffers),
            "headers": pa.nulls(count, LANDING_SCHEMA.field("headers").type),
        }
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in LANDING_SCHEMA.names], schema=LANDING_SCHEMA
        )

    def _cut_off(self) -> FormatError:
        return FormatError(
            f"expected a last line that ends with LF, got one of {self._pending_bytes} bytes that"
            " does not: the file may have been cut; nothing was published; write it again, or set"
            " source.logs.cut_line: keep in dataset.yaml if such a line is a record",
            path=self._span.location.uri,
            offset_bytes=self._offset,
        )

    def _too_long(self, offset: int) -> FormatError:
        return FormatError(
            f"expected lines of at most {self._span.max_line_bytes} bytes, got a longer one;"
            " nothing was published; raise source.logs.max_line_bytes in dataset.yaml, set"
            " source.logs.long_lines: quarantine, or replace the file",
            path=self._span.location.uri,
            offset_bytes=offset,
        )

"""Reads a file in runs of records, under a policy for damage."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, cast

from trainfeed.damage import DamageGap, DamagePolicy, DamageReport
from trainfeed.errors import ChecksumError, FormatError, TruncatedError
from trainfeed.paths import ShardSize, os_errors
from trainfeed.tfrecord._byte_files import FirstBytes
from trainfeed.tfrecord._inflated_streams import BLOCK_BYTES, Stream, open_stream
from trainfeed.tfrecord._record_resync import RecordResync
from trainfeed.tfrecord._record_runs import next_run
from trainfeed.tfrecord._tfrecord_format import (
    CHECKSUM,
    HEADER_BYTES,
    MAX_RECORD_BYTES,
    Compression,
    unpack_header,
)

__all__ = ["ReadOptions", "iter_runs"]


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How a file is read.

    Attributes:
        compression: Compression of the file; None recognises it.
        max_record_bytes: Limit for the length of a record; a longer one is refused.
        on_damage: Policy for damaged records.
    """

    compression: Compression | None = None
    max_record_bytes: int = MAX_RECORD_BYTES
    on_damage: DamagePolicy = DamagePolicy.strict()  # noqa: RUF009 (frozen)


def iter_runs(
    file: BinaryIO,
    path: str | None,
    options: ReadOptions,
    report: DamageReport,
    size: ShardSize | None = None,
) -> Iterator[list[bytes]]:
    """Yield the records of a file in lists: the records of one block at a time.

    Args:
        file: A binary file, read from its position on; seekable unless the policy is strict.
        path: Name for messages.
        options: How the file is read.
        report: Account of dropped records. Earlier entries count towards the limits of the policy.
        size: The size that the manifest of the file's set states, for a file read from its start.
            Another size is damage: what the file lacks, or has after the stated end, is dropped.

    Raises:
        TruncatedError: The file ends inside a record, or is shorter than ``size``.
        ChecksumError: A length or a record is damaged.
        FormatError: A record is longer than allowed, the file cannot be decompressed, or it is
            longer than ``size``. All three errors have the file and the offset of the record, in
            decompressed bytes, unless they are about ``size``.
    """
    if size is None:
        yield from _runs(_Walk(file, path, options, report))
        return
    with os_errors(path):
        num_bytes = file.seek(0, os.SEEK_END)
        file.seek(0)
    if (problem := size.problem(path, num_bytes)) is None:
        yield from _runs(_Walk(file, path, options, report))
        return
    if not options.on_damage.allows(problem):
        raise problem
    if num_bytes > size.num_bytes:
        file = cast("BinaryIO", FirstBytes(file, size.num_bytes))
    walk = _Walk(file, path, options, report)
    yield from _runs(walk)
    # A compressed file that cannot be read on was dropped up to its end.
    if not walk.is_lost:
        start, end = sorted((num_bytes, size.num_bytes))
        options.on_damage.drop_rest(report, path, start, end, problem)


def _runs(walk: _Walk) -> Iterator[list[bytes]]:
    while (records := walk.next_records()) is not None:
        yield records


class _Walk:
    """The position of a reader: a block of the decompressed content, and a place in it."""

    def __init__(
        self, file: BinaryIO, path: str | None, options: ReadOptions, report: DamageReport
    ) -> None:
        self._file = file
        self._path = path
        self._options = options
        self._report = report
        self._origin_bytes = 0
        if options.on_damage != DamagePolicy.strict():
            with os_errors(path):
                # The file may not begin at the reader's start: offsets of records are relative to
                # this byte.
                self._origin_bytes = file.tell()
        # None after the last record that can be read.
        self._stream: Stream | None = open_stream(file, options.compression)
        self._resync: RecordResync | None = None
        # The current block and its offset in the content; in the block the start of the next
        # record, and the number of that record in the file.
        self._block, self._block_bytes, self._start, self._number = b"", 0, 0, 0
        self._known_header, self._num_bytes = b"", 0
        self._damage: ChecksumError | None = None

    @property
    def is_lost(self) -> bool:
        """Whether the rest of the file cannot be decompressed, and was dropped."""
        return self._stream is None

    def next_records(self) -> list[bytes] | None:
        """Return the next records, possibly none; None at the end."""
        try:
            return self._next_run()
        except FormatError as error:
            error.path, error.offset_bytes = self._path, self._block_bytes + self._start
            error.args = (f"record {self._number}: {error.args[0]}",)
            self._drop(error)
            return []

    def _next_run(self) -> list[bytes] | None:
        # A checksum error is kept until the whole records before it were delivered.
        if self._damage is not None:
            damage, self._damage = self._damage, None
            raise damage
        if self._left_bytes() < HEADER_BYTES and not self._refill(HEADER_BYTES):
            return None
        stride = self._stride()
        if self._left_bytes() < stride:
            self._refill(stride)
        run = next_run(self._block, self._start, stride, self._options.max_record_bytes)
        self._start += run.num_bytes
        self._number += len(run.records)
        self._damage = run.damage
        return run.records

    def _left_bytes(self) -> int:
        return len(self._block) - self._start

    def _stride(self) -> int:
        """Return the bytes that the next record takes; its header is in the block."""
        header = self._block[self._start : self._start + HEADER_BYTES]
        # Records of equal length have equal headers, so most headers were verified before.
        if header != self._known_header:
            self._num_bytes = unpack_header(header, self._options.max_record_bytes)
            self._known_header = header
        return HEADER_BYTES + self._num_bytes + CHECKSUM.size

    def _refill(self, need_bytes: int) -> bool:
        """Read on until ``need_bytes`` are in the block; return False at the end of the file.

        Memory is allocated for bytes that were read, not for bytes that a length announces.
        """
        pieces = [self._block[self._start :]]
        # The old block is dropped first, so that its memory can be used for the new one.
        self._block, self._block_bytes, self._start = b"", self._block_bytes + self._start, 0
        have_bytes = len(pieces[0])
        try:
            while have_bytes < need_bytes and (piece := self._read()):
                pieces.append(piece)
                have_bytes += len(piece)
        finally:
            self._block = b"".join(pieces)
        if 0 < have_bytes < need_bytes:
            what = "a header" if need_bytes == HEADER_BYTES else "a record"
            raise TruncatedError(
                f"expected {what} of {need_bytes} bytes, the file has {have_bytes}"
            )
        return have_bytes > 0

    def _read(self) -> bytes:
        return b"" if self._stream is None else self._stream.read(BLOCK_BYTES)

    def _drop(self, error: FormatError) -> None:
        """Continue after the damaged record, or raise the error if the policy does not apply."""
        policy = self._options.on_damage
        policy.require_drop(error, self._report)
        offset_bytes = self._block_bytes + self._start
        if self._stream is not None and self._stream.is_plain:
            gap = self._plain_gap(offset_bytes, error)
            self._go_to(gap.end_bytes)
        else:
            # Behind damage, compressed data cannot be decompressed: the rest of the file is lost.
            gap = DamageGap(self._block_bytes + len(self._block))
            self._stream, self._start = None, len(self._block)
        self._report.drop(self._path, offset_bytes, gap, error)
        self._number += gap.num_records or 1

    def _plain_gap(self, offset_bytes: int, error: FormatError) -> DamageGap:
        if self._resync is None:
            self._resync = RecordResync(
                self._file,
                self._path,
                origin_bytes=self._origin_bytes,
                max_record_bytes=self._options.max_record_bytes,
            )
        try:
            gap = self._resync.gap_at(offset_bytes)
        except FormatError as hostile:
            hostile.path, hostile.offset_bytes = self._path, offset_bytes
            raise
        # A whole record after the damage shows that the file is not merely truncated.
        if not self._options.on_damage.skips and gap.end_bytes < self._resync.end_bytes:
            raise error
        return gap

    def _go_to(self, offset_bytes: int) -> None:
        """Continue at an offset of a file without compression, in this block or after it."""
        self._start = offset_bytes - self._block_bytes
        if self._left_bytes() < 0:
            self._block, self._block_bytes, self._start = b"", offset_bytes, 0
        with os_errors(self._path):
            # The stream must go on where the block ends, not where the record starts.
            self._file.seek(self._origin_bytes + self._block_bytes + len(self._block))
        self._stream = open_stream(self._file, Compression.NONE)

"""Reading of records in order: verified in runs, and continued after damage under a policy."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import BinaryIO, Final, cast

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from trainfeed.damage import DamageGap, DamageMode, DamagePolicy, DamageReport, SearchBudget
from trainfeed.errors import ChecksumError, ConfigError, FormatError, TruncatedError
from trainfeed.files import FilePath, SetWatch, ShardSize, expand_paths, os_errors, path_of
from trainfeed.tfrecord.format import (
    BLOCK_BYTES,
    CHECKSUM,
    HEADER,
    HEADER_BYTES,
    LENGTH,
    MAX_RECORD_BYTES,
    Compression,
    FirstBytes,
    Stream,
    compression_named,
    has_valid_header,
    masked,
    masked_array,
    open_file,
    open_stream,
    read_at,
    unmasked,
    unpack_header,
)

# --- Consecutive records in a block of bytes, read and verified together


class RecordRun:
    """Records up to the first damaged one.

    Args:
        records: Records of a block.
        stored: The stored checksum of each record.
        num_bytes: The bytes that each record takes in the block.

    Attributes:
        records: The records before the first damaged one.
        num_bytes: The bytes that these records take in the block.
        damage: The error of the next record; None if no record is damaged.
    """

    def __init__(self, records: list[bytes], stored: list[int], num_bytes: Sequence[int]) -> None:
        self.damage: ChecksumError | None = None
        computed = _checksums(records)
        if computed != stored:
            first = [a == b for a, b in zip(computed, stored, strict=True)].index(False)
            self.damage = ChecksumError(
                f"expected masked CRC-32C {stored[first]:#010x}, got {computed[first]:#010x}"
            )
            del records[first:]
        self.records = records
        self.num_bytes = sum(num_bytes[: len(records)])


def next_run(block: bytes, start: int, stride: int, max_record_bytes: int) -> RecordRun:
    """Read records from ``start`` on, at least one.

    Args:
        block: Bytes of a file.
        start: Place of a whole record, whose header was verified.
        stride: Bytes that this record takes in the block.
        max_record_bytes: A longer record ends the run.
    """
    num_equal = _num_equal_headers(block, start, stride)
    if num_equal > 1:
        return _equal_run(block, start, stride, num_equal)
    return _mixed_run(block, start, max_record_bytes)


def _equal_run(block: bytes, start: int, stride: int, num_records: int) -> RecordRun:
    first, last = start + HEADER_BYTES, start + num_records * stride
    # Equal headers were verified once, so all these records have this length.
    length = stride - HEADER_BYTES - CHECKSUM.size
    records = [block[i : i + length] for i in range(first, last, stride)]
    # One row per record; the last four columns are the checksums of the data.
    rows = np.frombuffer(block, np.uint8, num_records * stride, start)
    stored = np.ascontiguousarray(rows.reshape(num_records, stride)[:, -CHECKSUM.size :])
    return RecordRun(records, stored.view("<u4").ravel().tolist(), [stride] * num_records)


def _mixed_run(block: bytes, start: int, max_record_bytes: int) -> RecordRun:
    """Follow the lengths first, then verify their checksums; a wrong one ends the run."""
    starts, ends = _bounds(block, start, max_record_bytes)
    headers = [block[i : i + LENGTH.size] for i in starts]
    stored = [CHECKSUM.unpack_from(block, i + LENGTH.size)[0] for i in starts]
    computed = _checksums(headers)
    if computed != stored:
        num_good = [a == b for a, b in zip(computed, stored, strict=True)].index(False)
        del starts[num_good:], ends[num_good:]
    pairs = list(zip(starts, ends, strict=True))
    return RecordRun(
        [block[i + HEADER_BYTES : j - CHECKSUM.size] for i, j in pairs],
        [CHECKSUM.unpack_from(block, j - CHECKSUM.size)[0] for j in ends],
        [j - i for i, j in pairs],
    )


def _bounds(block: bytes, start: int, max_record_bytes: int) -> tuple[list[int], list[int]]:
    """Return starts and ends of the records in the block, by their unverified lengths."""
    starts, ends, unpack = [], [], LENGTH.unpack_from
    # The last place at which a header and a checksum still fit.
    last_start, num_bytes = len(block) - HEADER_BYTES - CHECKSUM.size, len(block)
    while start <= last_start:
        length = unpack(block, start)[0]
        end = start + HEADER_BYTES + length + CHECKSUM.size
        # A damaged length is stopped by the end of the block or the limit, and found by its
        # checksum later.
        if end > num_bytes or length > max_record_bytes:
            break
        starts.append(start)
        ends.append(end)
        start = end
    return starts, ends


def _checksums(pieces: list[bytes]) -> list[int]:
    checksums: list[int] = masked_array(list(map(crc32c, pieces))).tolist()
    return checksums


def _num_equal_headers(block: bytes, start: int, stride: int) -> int:
    """Return how many whole records from ``start`` on have the same header as the first."""
    header, second = block[start : start + HEADER_BYTES], start + stride
    num_whole = (len(block) - start) // stride
    if num_whole < 2 or block[second : second + HEADER_BYTES] != header:
        return 1
    rows: NDArray[np.uint8] = np.frombuffer(block, np.uint8, num_whole * stride, start)
    expected = np.frombuffer(header, np.uint8)
    differs = (rows.reshape(num_whole, stride)[:, :HEADER_BYTES] != expected).any(axis=1)
    # argmax is the first row that differs; 0 if none does, because row 0 equals itself.
    return int(differs.argmax()) or num_whole


# --- Finds the place after a damaged record where reading can go on, by checksums

_AROUND_BYTES: Final = HEADER_BYTES + CHECKSUM.size
# Bytes that are read at once: few at first, because most damage is small.
_FIRST_WINDOW_BYTES: Final = 1 << 12
_WINDOW_BYTES: Final = 1 << 18


class RecordResync:
    """Searches one file without compression for whole records after damaged places.

    Args:
        file: A seekable binary file; the search moves its position.
        path: Name for messages.
        origin_bytes: Offset in the file at which records start; all other offsets count from there.
        max_record_bytes: Limit for the length of a record; the search ignores longer ones.

    Attributes:
        end_bytes: Offset of the end of the file.
    """

    def __init__(
        self, file: BinaryIO, path: str | None, *, origin_bytes: int, max_record_bytes: int
    ) -> None:
        self._file = file
        self._path = path
        self._origin_bytes = origin_bytes
        self._max_record_bytes = max_record_bytes
        with os_errors(path):
            self.end_bytes = file.seek(0, os.SEEK_END) - origin_bytes
        self._budget = SearchBudget(self.end_bytes, "record")

    def gap_at(self, offset_bytes: int) -> DamageGap:
        """Find the end of the damaged place that starts at ``offset_bytes``.

        Raises:
            FormatError: The bytes are built so that the search would take too long.
        """
        header = self._read(offset_bytes, HEADER_BYTES)
        if len(header) < HEADER_BYTES:
            return DamageGap(self.end_bytes)
        stated, checksum = HEADER.unpack(header)
        # The length or its checksum may be damaged. A checksum determines the only length below
        # 2^32 that has it, so both possible ends of the record are tried.
        by_length, by_checksum = (
            offset_bytes + _AROUND_BYTES + n for n in (stated, _length_of(checksum))
        )
        for end_bytes in (by_length, by_checksum):
            if self._ends_record(offset_bytes, end_bytes):
                return DamageGap(end_bytes, 1)
        if self._is_boundary(by_checksum):
            return DamageGap(by_checksum, 1)
        found = self._next_record(offset_bytes)
        is_torn = found == self.end_bytes < by_length and has_valid_header(header)
        return DamageGap(found, 1 if is_torn else None)

    def _next_record(self, offset_bytes: int) -> int:
        """Return the start of the first whole record after ``offset_bytes``; the end if none.

        Raises:
            FormatError: The bytes are built so that the search would take too long.
        """
        start, num_bytes = offset_bytes + 1, _FIRST_WINDOW_BYTES
        while len(window := self._read(start, num_bytes)) >= HEADER_BYTES:
            left_bytes = self.end_bytes - start
            longest = min(left_bytes, self._max_record_bytes)
            for place, length in _headers(window, longest):
                self._budget.spend_candidate()
                end_bytes = start + place + _AROUND_BYTES + length
                if self._ends_record(start + place, end_bytes):
                    return start + place
            # The last bytes are searched again: a header may begin in this window and end in the
            # next one.
            start += len(window) - HEADER_BYTES + 1
            num_bytes = min(4 * num_bytes, _WINDOW_BYTES)
        return self.end_bytes

    def _ends_record(self, offset_bytes: int, end_bytes: int) -> bool:
        """Return whether the checksum of the data matches if the record ends at ``end_bytes``."""
        if end_bytes > self.end_bytes:
            return False
        data_end = end_bytes - CHECKSUM.size
        value, start = 0, offset_bytes + HEADER_BYTES
        self._budget.spend(data_end - start)
        while start < data_end:
            data = self._read(start, min(_WINDOW_BYTES, data_end - start))
            if not data:
                return False
            value = crc32c(data, value)
            start += len(data)
        return self._read(data_end, CHECKSUM.size) == CHECKSUM.pack(masked(value))

    def _is_boundary(self, offset_bytes: int) -> bool:
        """Return whether the file ends at ``offset_bytes``, or a valid header is there."""
        at_end = offset_bytes == self.end_bytes
        return at_end or has_valid_header(self._read(offset_bytes, HEADER_BYTES))

    def _read(self, offset_bytes: int, num_bytes: int) -> bytes:
        return read_at(self._file, self._origin_bytes + offset_bytes, num_bytes, self._path)


def _headers(window: bytes, longest: int) -> list[tuple[int, int]]:
    """Return the places of headers with lengths up to ``longest``, and these lengths."""
    num_places = len(window) - HEADER_BYTES + 1
    # Views with strides of 1 byte: item k is the length (or its checksum) of a header at byte k.
    lengths: NDArray[np.uint64] = np.ndarray((num_places,), "<u8", window, 0, (1,))
    stored: NDArray[np.uint32] = np.ndarray((num_places,), "<u4", window, LENGTH.size, (1,))
    # At most places the 8 bytes are too large for a length: only the others are verified.
    places = np.flatnonzero(lengths <= longest)
    found = lengths[places]
    right = _checksums_of(found) == stored[places]
    return list(zip(places[right].tolist(), found[right].tolist(), strict=True))


def _checksums_of(lengths: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Return the masked checksums of many lengths, both of shape ``(n,)``.

    CRC is linear: the checksum of a length is that of 0, changed by every octet independently.
    """
    tables = _tables()
    checksums = np.full(len(lengths), crc32c(bytes(LENGTH.size)), np.uint32)
    for number, octet in enumerate(lengths.astype("<u8").view(np.uint8).reshape(-1, 8).T):
        checksums ^= tables[number, octet]
    return masked_array(checksums)


@cache
def _tables() -> NDArray[np.uint32]:
    """Return the change of the checksum of 0 by each value of each octet; shape ``(8, 256)``."""
    zero = crc32c(bytes(LENGTH.size))
    rows = [
        [crc32c(LENGTH.pack(octet << 8 * number)) ^ zero for octet in range(256)]
        for number in range(LENGTH.size)
    ]
    return np.array(rows, np.uint32)


def _length_of(checksum: int) -> int:
    """Return the only length below 2^32 that has this masked checksum."""
    steps, step_of = _steps()
    state = unmasked(checksum) ^ 0xFFFFFFFF
    # Run the CRC backwards through 8 octets of 0. The result is the state before the length: the
    # initial ones, combined with the length itself.
    for _ in range(LENGTH.size):
        octet = step_of[state >> 24]
        state = (state ^ steps[octet]) << 8 & 0xFFFFFFFF | octet
    return state ^ 0xFFFFFFFF


@cache
def _steps() -> tuple[list[int], dict[int, int]]:
    """Return the CRC table, and for the highest octet of a table entry the number of the entry."""
    steps = [crc32c(bytes([octet ^ 0xFF])) ^ 0xFF000000 for octet in range(256)]
    return steps, {step >> 24: octet for octet, step in enumerate(steps)}


# --- Reads a file in runs of records, under a policy for damage


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


# --- All records of one file, or of several, in order

_STRICT: Final = DamagePolicy.strict()


class TFRecordReader:
    """The records of files, in order; can be iterated again.

    Without ``on_damage`` the first damage of a file ends the iteration with an error. With another
    policy, a compressed file is still lost from its first damage on, which counts as one range.

    Args:
        paths: A path, several paths separated by commas, or a list of these. Each part of a text
            may be a glob, whose matches are sorted by name; path objects are taken literally.
        compression: ``""``, ``"GZIP"`` or ``"ZLIB"``; None recognises it for each file.
        max_record_bytes: Limit for the length of a record; a longer one is refused.
        on_damage: Policy for damaged records; None is strict. Its limits count over all files.
            A shard that is shorter or longer than its manifest says is damaged at its end: records
            up to the smaller size are read, and the rest is one dropped range.

    Attributes:
        paths: The files.
        report: Account of the records that the latest iteration has dropped so far.
        starts: For each file that the latest iteration has opened so far, the number of records
            before it.

    Raises:
        NotFoundError: A part matches no file (the message names the part), or a shard of a glob is
            missing.
        ConflictError: The files are of several sets of shards.
        FormatError: A shard has another size than its manifest says, and the policy is strict.
        FileReplacedError: The set of shards is being replaced. Also raised by a pass, if the set
            was converted again after this object was made.
        ConfigError: The compression is unknown.
    """

    def __init__(
        self,
        paths: FilePath | Sequence[FilePath],
        *,
        compression: Compression | str | None = None,
        max_record_bytes: int = MAX_RECORD_BYTES,
        on_damage: DamagePolicy | None = None,
    ) -> None:
        self.paths = expand_paths(paths, counts=True)
        strict = on_damage in (None, DamagePolicy.strict())
        self._sets = SetWatch(self.paths, sizes=strict)
        self.report = DamageReport()
        self.starts: list[int] = []
        self._options = ReadOptions(
            compression=None if compression is None else compression_named(compression),
            max_record_bytes=max_record_bytes,
            on_damage=on_damage or DamagePolicy.strict(),
        )

    def __iter__(self) -> Iterator[bytes]:
        """Read all files.

        Raises:
            TruncatedError: A file ends inside a record.
            ChecksumError: A length or a record is damaged.
            FormatError: A record is longer than allowed, or a file cannot be decompressed.
        """
        for records in self._iter_runs():
            yield from records

    def iter_batches(self, num_records: int) -> Iterator[list[bytes]]:
        """Read all files in lists of ``num_records``, the last one shorter.

        This is faster than record by record. Batches continue across files.

        Raises:
            TruncatedError: A file ends inside a record.
            ChecksumError: A length or a record is damaged.
            FormatError: A record is longer than allowed, or a file cannot be decompressed. All
                three errors come after every whole batch of the records before.
        """
        if num_records < 1:
            raise ValueError(f"expected batches of at least 1 record, got {num_records}")
        batch: list[bytes] = []
        for records in self._iter_runs():
            batch += records
            if len(batch) >= num_records:
                beyond = len(batch) % num_records
                for start in range(0, len(batch) - beyond, num_records):
                    yield batch[start : start + num_records]
                del batch[: len(batch) - beyond]
        if batch:
            yield batch

    def _iter_runs(self) -> Iterator[list[bytes]]:
        report = self.report = DamageReport()
        starts: list[int] = []
        num_records, self.starts = 0, starts
        for path in self.paths:
            starts.append(num_records)
            size = self._sets.size_of(path)
            with open_file(path) as opened:
                self._sets.require_unchanged()
                for records in iter_runs(opened, path, self._options, report, size):
                    num_records += len(records)
                    yield records


def iter_records(
    file: FilePath | BinaryIO,
    *,
    compression: Compression | str | None = None,
    max_record_bytes: int = MAX_RECORD_BYTES,
    on_damage: DamagePolicy = _STRICT,
    report: DamageReport | None = None,
) -> Iterator[bytes]:
    """Read a file record by record; memory is needed for the longest record.

    Args:
        file: A path, or a binary file, which is read from its position on and stays open; it must
            be seekable unless ``on_damage`` is strict.
        compression: ``""``, ``"GZIP"`` or ``"ZLIB"``; None recognises it.
        max_record_bytes: Limit for the length of a record; a longer one is refused.
        on_damage: Policy for damaged records; see ``TFRecordReader``.
        report: Account of dropped records; needed unless ``on_damage`` is strict. Earlier entries
            count towards the limits of the policy.

    Yields:
        Each record, with verified checksum.

    Raises:
        TruncatedError: The file ends inside a record.
        ChecksumError: A length or a record is damaged.
        FormatError: A record is longer than allowed, or the file cannot be decompressed. All three
            errors have the file and the offset of the record, in decompressed bytes.
        ConfigError: ``on_damage`` is not strict, and there is no ``report``.
    """
    if report is None:
        if on_damage.mode is not DamageMode.STRICT:
            raise ConfigError("expected a report for what is dropped, got None; pass report=")
        report = DamageReport()
    options = ReadOptions(
        compression=None if compression is None else compression_named(compression),
        max_record_bytes=max_record_bytes,
        on_damage=on_damage,
    )
    with open_file(file) as opened:
        for records in iter_runs(opened, path_of(file), options, report):
            yield from records

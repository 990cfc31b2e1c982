"""The spill file of a conversion: samples in sorted runs, where buckets of keys are contiguous."""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from struct import Struct
from typing import Any, BinaryIO, Final, NamedTuple, Self, TypeAlias

import numpy as np
import xxhash
from numpy.typing import NDArray

from trainfeed.errors import BadMagicError, ChecksumError, FormatError, TruncatedError
from trainfeed.files.stores.posix import map_errors
from trainfeed.versions.order import Uint64s

# --- The layout of a sorted run, in which the samples of any range of buckets are contiguous

# Records of one length as an array (n,) of any plain dtype, or a sequence of any records.
Records: TypeAlias = "NDArray[Any] | Sequence[bytes]"

# A bucket is the upper 10 bits of a key; the other 54 bits order the samples in it.
NUM_BUCKETS: Final = 1024
KEY_SHIFT: Final = 54
_MAGIC: Final = b"tfspill1"
# Magic, number of samples, bytes of every record or _VARIABLE, bytes of the payload.
_FIXED: Final = Struct("<8s3Q")
FIXED_BYTES: Final = _FIXED.size
TABLE_BYTES: Final = 8 * NUM_BUCKETS
# Three tables with an entry per bucket, last row, last byte and digest; then the digest of the
# head.
HEAD_BYTES: Final = FIXED_BYTES + 3 * TABLE_BYTES + 8
_VARIABLE: Final = (1 << 64) - 1


class BucketRun(NamedTuple):
    """Place and size of a run in a file; ``record_bytes`` is None if the lengths differ."""

    offset_bytes: int
    num_samples: int
    record_bytes: int | None
    payload_bytes: int

    @property
    def keys_at(self) -> int:
        """Offset of the keys in the file."""
        # A run: head, keys (8 bytes each), lengths (4 bytes each, if they differ), payload.
        return self.offset_bytes + HEAD_BYTES

    @property
    def lengths_at(self) -> int:
        """Offset of the lengths, if the run has any."""
        return self.keys_at + 8 * self.num_samples

    @property
    def payload_at(self) -> int:
        """Offset of the payload."""
        return self.lengths_at + (4 * self.num_samples if self.record_bytes is None else 0)

    @property
    def end_bytes(self) -> int:
        """Offset of the next run."""
        return self.payload_at + self.payload_bytes


class Slice(NamedTuple):
    """The buckets ``[first, last)`` of one run: their rows and their bytes of payload."""

    run: BucketRun
    first: int
    last: int
    start: int
    stop: int
    payload_start: int
    payload_stop: int

    @property
    def pieces(self) -> list[tuple[int, int]]:
        """Offset and size of the keys, of the lengths if there are any, and of the payload."""
        run, num_rows = self.run, self.stop - self.start
        pieces = [(run.keys_at + 8 * self.start, 8 * num_rows)]
        if run.record_bytes is None:
            pieces.append((run.lengths_at + 4 * self.start, 4 * num_rows))
        num_bytes = self.payload_stop - self.payload_start
        return [*pieces, (run.payload_at + self.payload_start, num_bytes)]


class LoadedBuckets(NamedTuple):
    """Samples of some buckets, not sorted across runs.

    Attributes:
        keys: Keys, shape ``(n,)``.
        lengths: Bytes of each record, shape ``(n,)``.
        payload: The joined records, uint8.
    """

    keys: Uint64s
    lengths: NDArray[np.uint32]
    payload: NDArray[np.uint8]

    @property
    def record_bytes(self) -> int | None:
        """Bytes of every record; None if lengths differ or there are no records."""
        return _common_length(self.lengths)

    @property
    def starts(self) -> NDArray[np.int64]:
        """Offset of each record in the payload, and the end of the last one, shape ``(n + 1,)``."""
        return _starts(self.lengths)


class SortedRun:
    """The samples of a run in the order of their keys, before they are written.

    Args:
        keys: Keys of the records.
        records: The records, as many as keys.
        offset_bytes: Offset of the run in the file.

    Attributes:
        run: Place and size of the run.
        keys: Keys, ascending.
        lengths: Lengths of the records in this order; None if all are equal.
        ends: Number of rows up to the end of each bucket.
        payload_ends: Bytes of payload up to the end of each bucket.
    """

    def __init__(self, keys: Uint64s, records: Records, offset_bytes: int) -> None:
        # Records stay where they are; only this order is sorted, and they are gathered on writing.
        self._order = np.argsort(keys)
        self._records = records
        self.keys = keys[self._order]
        lengths = self._sorted_lengths()
        record_bytes = _record_bytes(records, lengths)
        self.lengths = lengths if record_bytes is None else None
        # The first key of every bucket but the first, so ``ends`` are row numbers after each
        # bucket.
        bounds = np.arange(1, NUM_BUCKETS, dtype=np.uint64) << np.uint64(KEY_SHIFT)
        self.ends = np.append(np.searchsorted(self.keys, bounds), len(keys)).astype(np.int64)
        if self.lengths is not None:
            self.payload_ends = _starts(self.lengths)[self.ends]
        else:
            self.payload_ends = self.ends * (record_bytes or 0)
        payload_bytes = int(self.payload_ends[-1])
        self.run = BucketRun(offset_bytes, len(keys), record_bytes, payload_bytes)

    def payload(self, first: int, last: int) -> NDArray[np.uint8]:
        """Return the joined records of the buckets ``[first, last)``, in order."""
        chosen = self._order[_bounds(self.ends, first, last)]
        if isinstance(self._records, np.ndarray):
            return self._records.take(chosen).view(np.uint8)
        data = b"".join(map(self._records.__getitem__, chosen.tolist()))
        return np.frombuffer(data, np.uint8)

    def digests(self, first: int, last: int, payload: NDArray[np.uint8]) -> list[int]:
        """Return the digests of the buckets ``[first, last)``, given their payload."""
        start = int(self.payload_ends[first - 1]) if first else 0
        found = []
        for bucket in range(first, last):
            rows = _bounds(self.ends, bucket, bucket + 1)
            place = _bounds(self.payload_ends, bucket, bucket + 1)
            lengths = None if self.lengths is None else self.lengths[rows]
            # ``payload`` begins with bucket ``first``: places in the run are shifted by its start.
            data = payload[place.start - start : place.stop - start]
            found.append(_digest(self.keys[rows], lengths, data))
        return found

    def _sorted_lengths(self) -> NDArray[np.uint32] | None:
        if isinstance(self._records, np.ndarray):
            return None
        lengths = np.fromiter(map(len, self._records), np.uint32, len(self._records))
        return lengths[self._order]


def dump_head(
    run: BucketRun, ends: NDArray[Any], payload_ends: NDArray[Any], digests: Sequence[int]
) -> bytes:
    """Return the head of a run."""
    size = _VARIABLE if run.record_bytes is None else run.record_bytes
    tables = [np.asarray(table).astype("<u8").tobytes() for table in (ends, payload_ends)]
    checks = np.array(digests, "<u8").tobytes()
    fixed = _FIXED.pack(_MAGIC, run.num_samples, size, run.payload_bytes)
    head = b"".join([fixed, *tables, checks])
    return head + xxhash.xxh3_64_intdigest(head).to_bytes(8, "little")


def parse_head(head: bytes, offset_bytes: int) -> tuple[BucketRun, NDArray[np.int64]]:
    """Return a run, and its ``ends`` and ``payload_ends``, shape ``(2, 1024)``.

    Raises:
        BadMagicError: The bytes are not the head of a run.
        ChecksumError: The head is damaged.
        FormatError: Numbers of the head contradict each other.
    """
    magic, num_samples, size, payload_bytes = _FIXED.unpack_from(head)
    if magic != _MAGIC:
        raise BadMagicError(f"expected a run of samples, got {magic!r}", offset_bytes=offset_bytes)
    if xxhash.xxh3_64_intdigest(head[:-8]) != int.from_bytes(head[-8:], "little"):
        raise ChecksumError("the head of a run is damaged", offset_bytes=offset_bytes)
    run = BucketRun(offset_bytes, num_samples, None if size == _VARIABLE else size, payload_bytes)
    tables = np.frombuffer(head, "<u8", 2 * NUM_BUCKETS, FIXED_BYTES).reshape(2, NUM_BUCKETS)
    totals = [num_samples, payload_bytes]
    # A valid digest does not prove a valid table: sizes are checked before memory depends on them.
    if tables[:, -1].tolist() != totals or (tables[:, 1:] < tables[:, :-1]).any():
        raise FormatError("the head of a run contradicts itself", offset_bytes=offset_bytes)
    return run, tables.astype(np.int64)


def verify_buckets(
    part: Slice, loaded: LoadedBuckets, tables: Sequence[NDArray[np.uint64]]
) -> None:
    """Compare loaded samples with the digests of their buckets.

    Args:
        part: The buckets.
        loaded: The loaded samples.
        tables: ``ends``, ``payload_ends`` and ``digests`` of the buckets of ``part``.

    Raises:
        ChecksumError: A bucket is damaged.
    """
    ends, payload_ends, expected = (table.tolist() for table in tables)
    row, byte = part.start, part.payload_start
    for i, digest in enumerate(expected):
        rows = slice(row - part.start, ends[i] - part.start)
        data = slice(byte - part.payload_start, payload_ends[i] - part.payload_start)
        lengths = loaded.lengths[rows] if part.run.record_bytes is None else None
        if _digest(loaded.keys[rows], lengths, loaded.payload[data]) != digest:
            raise ChecksumError(
                f"bucket {part.first + i} of a run is damaged", offset_bytes=part.run.offset_bytes
            )
        # A bucket begins where the one before ends.
        row, byte = ends[i], payload_ends[i]


def _bounds(ends: NDArray[np.int64], first: int, last: int) -> slice:
    return slice(int(ends[first - 1]) if first else 0, int(ends[last - 1]))


def _digest(keys: Uint64s, lengths: NDArray[np.uint32] | None, payload: NDArray[np.uint8]) -> int:
    state = xxhash.xxh3_64()
    state.update(keys.data)
    if lengths is not None:
        state.update(lengths.data)
    state.update(payload.data)
    return state.intdigest()


def _record_bytes(records: Records, lengths: NDArray[np.uint32] | None) -> int | None:
    if isinstance(records, np.ndarray):
        return int(records.itemsize)
    if lengths is None or not len(lengths):
        return 0
    return _common_length(lengths)


def _common_length(lengths: NDArray[np.uint32]) -> int | None:
    same = len(lengths) > 0 and bool((lengths == lengths[0]).all())
    return int(lengths[0]) if same else None


def _starts(lengths: NDArray[np.uint32]) -> NDArray[np.int64]:
    return np.append(0, np.cumsum(lengths, dtype=np.int64))


# --- The spill file of a conversion: samples between reading and writing, in sorted runs

# Bytes that are written at once: large enough for the disk, small against the memory of a run.
_WRITE_BYTES: Final = 4 << 20
# Flags of fallocate: free a range, and keep the size of the file.
_KEEP_SIZE: Final = 1
_PUNCH_HOLE: Final = 2


class Spill:
    """A file of sorted runs; the end of the context closes the file.

    Args:
        file: An unbuffered binary file, empty.
        path: Name for messages.

    Attributes:
        runs: The runs, in file order.
        num_samples: Samples per bucket, shape ``(1024,)``.
        payload_bytes: Bytes of records per bucket, shape ``(1024,)``.
    """

    def __init__(self, file: BinaryIO, path: str) -> None:
        self._file = file
        self._fd = file.fileno()
        self._path = path
        self._can_discard = True
        self.runs: list[BucketRun] = []
        self.num_samples = np.zeros(NUM_BUCKETS, np.int64)
        self.payload_bytes = np.zeros(NUM_BUCKETS, np.int64)

    @classmethod
    def anonymous(cls, folder: Path) -> Self:
        """Make an empty file without a name: the kernel removes it when the process ends."""
        with map_errors(folder):
            file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 (closed by close)
        return cls(file, f"a nameless file in {folder}")

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a file for reading; every head is verified.

        Raises:
            FormatError: The file is not a spill file, or is truncated or damaged.
        """
        with map_errors(path):
            spill = cls(path.open("rb", buffering=0), str(path))
        try:
            spill._load_runs()
        except BaseException:
            spill.close()
            raise
        return spill

    def append(self, keys: Uint64s, records: Records) -> None:
        """Write a run; ``records[i]`` has the key ``keys[i]``."""
        # The last run is synced only now: the kernel wrote it out while the next one was collected.
        self._release_last_run()
        block = SortedRun(keys, records, self.runs[-1].end_bytes if self.runs else 0)
        run = block.run
        self._write(run.keys_at, block.keys)
        if block.lengths is not None:
            self._write(run.lengths_at, block.lengths)
        # The head is written last: it needs the digests of the payload.
        place, digests = run.payload_at, []
        # As many buckets as have about _WRITE_BYTES of payload, if all have equal sizes.
        step = max(1, NUM_BUCKETS * _WRITE_BYTES // max(1, run.payload_bytes))
        for first in range(0, NUM_BUCKETS, step):
            last = min(first + step, NUM_BUCKETS)
            payload = block.payload(first, last)
            digests += block.digests(first, last, payload)
            self._write(place, payload)
            place += len(payload)
        head = dump_head(run, block.ends, block.payload_ends, digests)
        self._write(run.offset_bytes, np.frombuffer(head, np.uint8))
        self._account(run, block.ends, block.payload_ends)

    def slices(self, first: int, last: int) -> list[Slice]:
        """Return the places of the buckets ``[first, last)`` in all runs with samples of them."""
        found = []
        for run in self.runs:
            start, stop = self._bounds(run, 0, first, last)
            payload_start, payload_stop = self._bounds(run, 1, first, last)
            if start < stop:
                found.append(Slice(run, first, last, start, stop, payload_start, payload_stop))
        return found

    def load(self, part: Slice, out: LoadedBuckets) -> None:
        """Read a slice into memory of its size, and verify it.

        Raises:
            ChecksumError: The file is damaged.
            TruncatedError: The file ends inside the slice.
        """
        run = part.run
        self._read(run.keys_at + 8 * part.start, out.keys)
        if run.record_bytes is None:
            self._read(run.lengths_at + 4 * part.start, out.lengths)
        else:
            out.lengths[:] = run.record_bytes
        self._read(run.payload_at + part.payload_start, out.payload)
        tables = [self._table(run, number, part.first, part.last) for number in range(3)]
        try:
            verify_buckets(part, out, tables)
        except FormatError as error:
            error.path = self._path
            raise

    def discard(self, part: Slice) -> None:
        """Free the disk space of a slice, which must not be loaded again."""
        for start_bytes, num_bytes in part.pieces:
            # An empty range (all records may be empty) tells nothing about the file system.
            if self._can_discard and num_bytes:
                self._can_discard = _punch_hole(self._fd, start_bytes, num_bytes)

    def close(self) -> None:
        """Close the file; safe to call twice."""
        self._file.close()

    def __enter__(self) -> Self:
        """Return the spill itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    def _release_last_run(self) -> None:
        """Sync the last run and release its pages from the page cache, for the next run.

        Otherwise the kernel must search for free memory all the time, and still write all runs to
        disk in the end. The very last run stays cached, so small conversions never wait for the
        disk.
        """
        if self.runs:
            run = self.runs[-1]
            with map_errors(self._path):
                # Only clean pages can be released, so the run is synced first.
                os.fdatasync(self._fd)
                size = run.end_bytes - run.offset_bytes
                os.posix_fadvise(self._fd, run.offset_bytes, size, os.POSIX_FADV_DONTNEED)

    def _account(self, run: BucketRun, ends: NDArray[Any], payload_ends: NDArray[Any]) -> None:
        self.runs.append(run)
        # From ends to sizes per bucket.
        self.num_samples += ends - np.append(0, ends[:-1])
        self.payload_bytes += payload_ends - np.append(0, payload_ends[:-1])

    def _load_runs(self) -> None:
        with map_errors(self._path):
            file_bytes = os.fstat(self._fd).st_size
        offset_bytes = 0
        while offset_bytes < file_bytes:
            head = np.empty(HEAD_BYTES, np.uint8)
            self._read(offset_bytes, head)
            try:
                run, tables = parse_head(head.tobytes(), offset_bytes)
            except FormatError as error:
                error.path = self._path
                raise
            if run.end_bytes > file_bytes:
                raise TruncatedError(
                    f"expected a run up to byte {run.end_bytes}, the file has {file_bytes}",
                    path=self._path,
                    offset_bytes=offset_bytes,
                )
            self._account(run, tables[0], tables[1])
            offset_bytes = run.end_bytes

    def _table(self, run: BucketRun, number: int, first: int, last: int) -> NDArray[np.uint64]:
        out = np.empty(last - first, np.uint64)
        self._read(run.offset_bytes + FIXED_BYTES + number * TABLE_BYTES + 8 * first, out)
        return out

    def _bounds(self, run: BucketRun, number: int, first: int, last: int) -> tuple[int, int]:
        # Tables hold ends, so the start of a range is the end of the bucket before.
        start = int(self._table(run, number, first - 1, first)[0]) if first else 0
        return start, int(self._table(run, number, last - 1, last)[0])

    def _write(self, offset_bytes: int, data: NDArray[Any]) -> None:
        rest = _bytes_of(data)
        with map_errors(self._path):
            while rest:
                # A write may take less than given; the rest is written again.
                num_bytes = os.pwrite(self._fd, rest, offset_bytes)
                rest, offset_bytes = rest[num_bytes:], offset_bytes + num_bytes

    def _read(self, offset_bytes: int, out: NDArray[Any]) -> None:
        rest = _bytes_of(out)
        while rest:
            with map_errors(self._path):
                num_bytes = os.preadv(self._fd, [rest], offset_bytes)
            if not num_bytes:
                raise TruncatedError(
                    f"{len(rest)} bytes are missing", path=self._path, offset_bytes=offset_bytes
                )
            rest, offset_bytes = rest[num_bytes:], offset_bytes + num_bytes


def _bytes_of(array: NDArray[Any]) -> memoryview:
    # An empty array cannot be cast to a memoryview of bytes.
    return array.view(np.uint8).data if array.size else memoryview(b"")


def _punch_hole(descriptor: int, start_bytes: int, num_bytes: int) -> bool:
    """Free a range of an open file, which then reads as zeros.

    The range's memory and disk space are free at once; its dirty pages are never written to disk.

    Returns:
        Whether the file system supports it. If not, nothing has changed.
    """
    fallocate = _fallocate()
    if fallocate is None or num_bytes <= 0:
        return False
    return bool(fallocate(descriptor, _KEEP_SIZE | _PUNCH_HOLE, start_bytes, num_bytes) == 0)


@cache
def _fallocate() -> Any:
    try:
        function = ctypes.CDLL(None).fallocate64
    except (AttributeError, OSError):
        # This C library has no such function: disk space is freed at the end only.
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    function.restype = ctypes.c_int
    return function

"""The spill file of a conversion: samples between reading and writing, in sorted runs."""

from __future__ import annotations

import ctypes
import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Final, Self

import numpy as np
from numpy.typing import NDArray

from trainfeed.conversion.sorting._run_layout import (
    FIXED_BYTES,
    HEAD_BYTES,
    NUM_BUCKETS,
    TABLE_BYTES,
    BucketRun,
    LoadedBuckets,
    Records,
    Slice,
    SortedRun,
    dump_head,
    parse_head,
    verify_buckets,
)
from trainfeed.dataset.identity import Uint64s
from trainfeed.errors import FormatError, TruncatedError
from trainfeed.storage.posix import map_errors

__all__ = ["Spill"]

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
        self._release_last_run()
        block = SortedRun(keys, records, self.runs[-1].end_bytes if self.runs else 0)
        run = block.run
        self._write(run.keys_at, block.keys)
        if block.lengths is not None:
            self._write(run.lengths_at, block.lengths)
        # The head is written last: it needs the digests of the payload.
        place, digests = run.payload_at, []
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
                os.fdatasync(self._fd)
                size = run.end_bytes - run.offset_bytes
                os.posix_fadvise(self._fd, run.offset_bytes, size, os.POSIX_FADV_DONTNEED)

    def _account(self, run: BucketRun, ends: NDArray[Any], payload_ends: NDArray[Any]) -> None:
        self.runs.append(run)
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
        start = int(self._table(run, number, first - 1, first)[0]) if first else 0
        return start, int(self._table(run, number, last - 1, last)[0])

    def _write(self, offset_bytes: int, data: NDArray[Any]) -> None:
        rest = _bytes_of(data)
        with map_errors(self._path):
            while rest:
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

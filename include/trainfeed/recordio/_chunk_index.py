"""The index of a file: offsets and record counts of its chunks, read without decoding."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from trainfeed.paths import FilePath, SetWatch
from trainfeed.recordio._byte_source import ByteSource, ReadableFile, open_source
from trainfeed.recordio._chunk import ChunkBuffers, ChunkReader, read_header
from trainfeed.recordio._framing import check_sizes, iter_records, record_bounds
from trainfeed.recordio._recordio_format import HEADER_BYTES, MAX_RAW_BYTES, ChunkInfo, located
from trainfeed.recordio.compression import raw_bytes_of

__all__ = ["RangeScanner", "RecordIndex"]


@dataclass(frozen=True)
class RecordIndex:
    """The chunks of a file, in file order."""

    chunks: tuple[ChunkInfo, ...]

    @classmethod
    def load(cls, file: ReadableFile) -> RecordIndex:
        """Read the headers of a file.

        The cost per chunk is one small read, and one more for the announced size (for snappy one
        per 64 KiB). Payloads are not read, so only headers and sizes are verified.

        Raises:
            TruncatedError: The file ends inside a chunk.
            BadMagicError: No chunk starts where one should.
            UnsupportedCodecError: This version does not know the codec.
            FormatError: A header contradicts itself, or the file has another layout.
        """
        with open_source(file) as source:
            return cls(tuple(_iter_infos(source)))

    @property
    def num_records(self) -> int:
        """Number of records in the file."""
        return self._ends[-1] if self._ends else 0

    def locate(self, i: int) -> tuple[int, int]:
        """Return the number of the chunk that holds record ``i``, and the record's place in it.

        Raises:
            IndexError: There is no record ``i``; negative numbers are not counted from the end.
        """
        if not 0 <= i < self.num_records:
            raise IndexError(f"expected a record number from 0 to {self.num_records - 1}, got {i}")
        # ``_ends[k]`` is the number of records up to the end of chunk k. bisect_right skips chunks
        # without records.
        number = bisect_right(self._ends, i)
        return number, i - (self._ends[number] - self.chunks[number].num_records)

    def of_chunk(self, number: int) -> RecordIndex:
        """Return the index of one chunk, in which its first record is record 0.

        Raises:
            IndexError: There is no chunk ``number``; negative numbers are not counted from the end.
        """
        if not 0 <= number < len(self.chunks):
            last = len(self.chunks) - 1
            raise IndexError(f"expected a chunk number from 0 to {last}, got {number}")
        return RecordIndex(self.chunks[number : number + 1])

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(chunk.num_records for chunk in self.chunks))


class RangeScanner:
    """The records ``[start, start + length)`` of a file, like a slice of the list of all records.

    The object can be iterated again. One chunk at a time is read and verified, and only chunks
    that hold records of the range.

    Args:
        path: The file.
        index: Index of the file.
        start: Number of the first record; below 0 counts as 0.
        length: Number of records; a number below 0, or after the end, means up to the end.
        max_raw_bytes: Limit for the bytes of a chunk's framing; a larger chunk is refused.
    """

    def __init__(
        self,
        path: FilePath,
        index: RecordIndex,
        *,
        start: int = 0,
        length: int = -1,
        max_raw_bytes: int = MAX_RAW_BYTES,
    ) -> None:
        self._path = path
        self._index = index
        self._start = max(start, 0)
        # As in slices, a start or an end beyond the last record is no error.
        left = max(index.num_records - self._start, 0)
        self._length = left if length < 0 else min(length, left)
        self._max_raw_bytes = max_raw_bytes

    def __iter__(self) -> Iterator[bytes]:
        """Read the range.

        Raises:
            TruncatedError: The file ends inside a chunk.
            ChecksumError: A payload is damaged.
            FormatError: The file and the index differ.
        """
        if not self._length:
            return
        number, skip = self._index.locate(self._start)
        left = self._length
        SetWatch([self._path])
        with open_source(self._path) as source:
            reader = ChunkReader(source, ChunkBuffers(), self._max_raw_bytes)
            while left:
                chunk = self._index.chunks[number]
                with located(source.path, chunk.offset_bytes, number):
                    framing = reader.read_known(chunk)
                    bounds = record_bounds(framing, chunk.num_records)
                # Record i lies between bounds i and i + 1, so n records need n + 1 bounds.
                bounds = bounds[skip : skip + left + 1]
                yield from map(bytes, iter_records(framing, bounds))
                # Only the first chunk is entered in the middle.
                number, skip, left = number + 1, 0, left - (len(bounds) - 1)


class _StoredPayload:
    """A payload that stays in its file; only requested slices are read."""

    def __init__(self, source: ByteSource, offset_bytes: int, num_bytes: int) -> None:
        self._source = source
        self._offset_bytes = offset_bytes
        self._num_bytes = num_bytes

    def __len__(self) -> int:
        return self._num_bytes

    def __getitem__(self, part: slice) -> bytes:
        start, stop, _ = part.indices(self._num_bytes)
        data = bytearray(stop - start)
        got = self._source.read_into(self._offset_bytes + start, memoryview(data))
        return bytes(data[:got])


def _iter_infos(source: ByteSource) -> Iterator[ChunkInfo]:
    end_bytes, offset_bytes, number = source.num_bytes(), 0, 0
    while offset_bytes < end_bytes:
        with located(source.path, offset_bytes, number):
            info = _read_info(source, offset_bytes, end_bytes)
        yield info
        offset_bytes, number = info.end_bytes, number + 1


def _read_info(source: ByteSource, offset_bytes: int, end_bytes: int) -> ChunkInfo:
    header = read_header(source, offset_bytes, end_bytes)
    # Compressed payloads state their decoded size in a few bytes: only these slices are read.
    payload = _StoredPayload(source, offset_bytes + HEADER_BYTES, header.stored_bytes)
    raw_bytes = raw_bytes_of(header.codec, payload)
    check_sizes(header.num_records, raw_bytes)
    return ChunkInfo(
        offset_bytes=offset_bytes,
        stored_bytes=header.stored_bytes,
        raw_bytes=raw_bytes,
        num_records=header.num_records,
        crc32=header.crc32,
        codec=header.codec,
    )

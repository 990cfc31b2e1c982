"""Reading of records: in order, by number, by ranges of chunks, and ahead in threads."""

from __future__ import annotations

import operator
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Final, Generic, NamedTuple, Self, SupportsIndex, TypeVar

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from trainfeed.damage import DamageMode, DamagePolicy, DamageReport
from trainfeed.errors import ConfigError, FormatError
from trainfeed.files import FilePath, SetWatch, ShardSize, expand_paths, path_of
from trainfeed.recordio.chunk import (
    ByteSource,
    ChunkBuffers,
    ChunkReader,
    MappedFile,
    ReadableFile,
    foreign_layout,
    open_source,
    read_header,
)
from trainfeed.recordio.compression import raw_bytes_of
from trainfeed.recordio.format import (
    HEADER_BYTES,
    LENGTH,
    MAX_RAW_BYTES,
    ChunkInfo,
    Codec,
    check_sizes,
    iter_records,
    located,
    record_bounds,
)
from trainfeed.recordio.salvage import ChunkResync

# --- The index of a file: offsets and record counts of its chunks, read without decoding


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


# --- Reads a file chunk by chunk under a policy for damage, or verifies the whole file

_STRICT: Final = DamagePolicy.strict()


def iter_chunks(
    file: ReadableFile,
    *,
    max_raw_bytes: int = MAX_RAW_BYTES,
    buffers: ChunkBuffers | None = None,
    on_damage: DamagePolicy = _STRICT,
    report: DamageReport | None = None,
    size: ShardSize | None = None,
) -> Iterator[tuple[ChunkInfo, memoryview]]:
    """Read a file chunk by chunk.

    Args:
        file: A path, a descriptor, or a seekable binary file; read from its first byte.
        max_raw_bytes: Limit for the bytes of a chunk's framing; a larger chunk is refused.
        buffers: Memory for chunks, used again for every chunk.
        on_damage: Policy for damaged chunks.
        report: Account of dropped chunks; needed unless ``on_damage`` is strict. Earlier entries
            count towards the limits of the policy.
        size: The size that the manifest of the file's set states. Another size is damage: what the
            file lacks, or has after the stated end, is one dropped range at its end.

    Yields:
        Each chunk and its framing, with verified checksum and length. The number of records is
        verified by the functions that split the framing, and here only under ``skip_chunk``. With
        ``buffers`` the framing is valid until the next chunk is requested; otherwise it has memory
        of its own.

    Raises:
        TruncatedError: The file ends inside a chunk, or is shorter than ``size``.
        BadMagicError: No chunk starts where one should.
        ChecksumError: A payload is damaged.
        UnsupportedCodecError: This version does not know the codec.
        FormatError: A chunk is larger than allowed, does not decompress to the announced size, or
            the file has another layout, or is longer than ``size``.
        ConfigError: ``on_damage`` is not strict, and there is no ``report``.
    """
    if report is None:
        if on_damage.mode is not DamageMode.STRICT:
            raise ConfigError("expected a report for what is dropped, got None; pass report=")
        report = DamageReport()
    with open_source(file) as source:
        end_bytes, offset_bytes, number = source.num_bytes(), 0, 0
        sizes = (end_bytes,) if size is None else sorted((end_bytes, size.num_bytes))
        problem = None if size is None else size.problem(source.path, end_bytes)
        if problem is not None and not on_damage.allows(problem):
            raise problem
        end_bytes = sizes[0]
        # Buffers of its own: a search for the next chunk must not overwrite a framing still in use.
        resync = ChunkResync(source, ChunkReader(source, ChunkBuffers(), max_raw_bytes), end_bytes)
        drops = _Drops(on_damage, report, source, resync)
        while offset_bytes < end_bytes:
            reader = ChunkReader(source, buffers or ChunkBuffers(), max_raw_bytes)
            try:
                with located(source.path, offset_bytes, number):
                    info, framing = reader.read(offset_bytes, end_bytes)
                    # A skipped chunk must yield no record, so its lengths are checked before it is
                    # delivered.
                    if on_damage.skips:
                        record_bounds(framing, info.num_records)
            except FormatError as error:
                offset_bytes = drops.drop(offset_bytes, error)
            else:
                yield info, framing
                offset_bytes = info.end_bytes
            number += 1
        if problem is not None:
            on_damage.drop_rest(report, source.path, sizes[0], sizes[-1], problem)


def verify_shard(file: ReadableFile, *, max_raw_bytes: int = MAX_RAW_BYTES) -> RecordIndex:
    """Verify a file to its last record; one chunk at a time is in memory.

    Args:
        file: A path, a descriptor, or a seekable binary file.
        max_raw_bytes: Limit for the bytes of a chunk's framing; a larger chunk is refused.

    Returns:
        The index of the file; every number in it was verified.

    Raises:
        TruncatedError: The file ends inside a chunk.
        BadMagicError: No chunk starts where one should.
        ChecksumError: A payload is damaged.
        UnsupportedCodecError: This version does not know the codec of a chunk.
        FormatError: The content of a chunk differs from its header, or the chunk is too large.
    """
    infos = []
    chunks = iter_chunks(file, max_raw_bytes=max_raw_bytes, buffers=ChunkBuffers())
    for number, (info, framing) in enumerate(chunks):
        with located(path_of(file), info.offset_bytes, number):
            record_bounds(framing, info.num_records)
        infos.append(info)
    return RecordIndex(tuple(infos))


class _Drops:
    """Drops damaged chunks that the policy allows to drop, and notes them in the report."""

    def __init__(
        self, policy: DamagePolicy, report: DamageReport, source: ByteSource, resync: ChunkResync
    ) -> None:
        self._policy = policy
        self._report = report
        self._source = source
        self._resync = resync

    def drop(self, offset_bytes: int, error: FormatError) -> int:
        """Return the offset where reading goes on; raise the error if the policy does not apply."""
        if self._policy.mode is DamageMode.STRICT:
            raise error
        # A plain FormatError: header and payload contradict each other, and either may be wrong,
        # so the number of lost records is unknown.
        is_unclear = type(error) is FormatError
        if is_unclear and foreign_layout(self._source, offset_bytes, self._resync.end_bytes):
            raise error
        self._policy.require_drop(error, self._report)
        with located(self._source.path, offset_bytes):
            gap = self._resync.gap_at(offset_bytes)
        # Policies that do not skip accept only a torn tail: damage with no whole chunk after it.
        if not (self._policy.skips or self._resync.is_torn(offset_bytes, gap)):
            raise error
        if is_unclear:
            gap = gap._replace(num_records=None)
        self._report.drop(self._source.path, offset_bytes, gap, error)
        return gap.end_bytes


# --- All records of one file, or of several, in order


class RecordScanner:
    """The records of files, in order; can be iterated again.

    Without ``on_damage`` the first damage of a file ends the scan with an error.

    Args:
        paths: A path, several paths separated by commas, or a list of these. Each part of a text
            may be a glob, whose matches are sorted by name; path objects are taken literally.
        max_raw_bytes: Limit for the bytes of a chunk's framing; a larger chunk is refused.
        on_damage: Policy for damaged chunks; None is strict. Its limits count over all files.
            A shard that is shorter or longer than its manifest says is damaged at its end: records
            up to the smaller size are read, and the rest is one dropped range.

    Attributes:
        paths: The files, in the order in which they are read.
        report: Account of the chunks that the latest iteration has dropped so far.

    Raises:
        NotFoundError: A part matches no file (the message names the part), or a shard of a glob is
            missing.
        ConflictError: The files are of several sets of shards.
        FormatError: A shard has another size than its manifest says, and the policy is strict.
        FileReplacedError: The set of shards is being replaced.
    """

    def __init__(
        self,
        paths: FilePath | Sequence[FilePath],
        *,
        max_raw_bytes: int = MAX_RAW_BYTES,
        on_damage: DamagePolicy | None = None,
    ) -> None:
        self.paths = expand_paths(paths)
        self._on_damage = on_damage or DamagePolicy.strict()
        self._sets = SetWatch(self.paths, sizes=self._on_damage == DamagePolicy.strict())
        self.report = DamageReport()
        self._max_raw_bytes = max_raw_bytes

    def __iter__(self) -> Iterator[bytes]:
        """Read all files.

        Raises:
            TruncatedError: A file ends inside a chunk.
            BadMagicError: No chunk starts where one should.
            ChecksumError: A payload is damaged.
            UnsupportedCodecError: This version does not know the codec of a chunk.
            FormatError: The content of a chunk differs from its header, or the chunk is too large.
            FileReplacedError: The set of shards was converted again since the files were looked up.
        """
        buffers = ChunkBuffers()
        report = self.report = DamageReport()
        for path in self.paths:
            chunks = iter_chunks(
                path,
                max_raw_bytes=self._max_raw_bytes,
                buffers=buffers,
                on_damage=self._on_damage,
                report=report,
                size=self._sets.size_of(path),
            )
            for number, (info, framing) in enumerate(self._sets.over(chunks)):
                with located(path, info.offset_bytes, number):
                    bounds = record_bounds(framing, info.num_records)
                yield from map(bytes, iter_records(framing, bounds))


# --- Records by their ordinals, in any order

# Marks of a chunk that has no usable stride:
_UNSEEN: Final = 0  # not verified yet, or compressed
_UNEVEN: Final = -1  # verified; its records differ in size


class RandomAccess:
    """An open file whose records are read by number.

    The object keeps the chunk that was decoded last, so neighbouring records cost nothing. After
    an uncompressed chunk was verified once, only the requested records of it are read. Use the
    object as a context manager, or close it. Threads must not share it: give each thread its own.

    Args:
        path: The file.
        index: The index of the file, or of one of its chunks; None loads it. Ordinals count from
            the first record of the index.
        mapped: Map the file instead of reading it; see ``MappedFile`` for when that is wise.
        max_raw_bytes: Limit for the bytes of a chunk's framing; a larger chunk is refused.

    Attributes:
        index: As above.

    Raises:
        NotFoundError: No file is at the path.
        FormatError: The file has damaged headers, and no index was given; or it has another size
            than the manifest of its set says.
    """

    def __init__(
        self,
        path: FilePath,
        index: RecordIndex | None = None,
        *,
        mapped: bool = False,
        max_raw_bytes: int = MAX_RAW_BYTES,
    ) -> None:
        SetWatch([path])
        self.index = RecordIndex.load(path) if index is None else index
        chunks = self.index.chunks
        self._ends = np.cumsum([chunk.num_records for chunk in chunks], dtype=np.int64)
        self._firsts = self._ends - np.array([chunk.num_records for chunk in chunks], np.int64)
        self._payloads = np.array(
            [chunk.offset_bytes + HEADER_BYTES for chunk in chunks], dtype=np.int64
        )
        self._strides = np.full(len(chunks), _UNSEEN, dtype=np.int64)
        self._known_bounds: dict[int, array[int]] = {}
        self._number: int | None = None
        self._framing = memoryview(b"")
        self._bounds: array[int] = array("Q")
        self._closing = ExitStack()
        file = self._closing.enter_context(MappedFile(path)) if mapped else path
        self._source = self._closing.enter_context(open_source(file))
        self._reader: ChunkReader | None = ChunkReader(self._source, ChunkBuffers(), max_raw_bytes)

    def __len__(self) -> int:
        return self.index.num_records

    def get(self, i: SupportsIndex) -> bytes:
        """Return record ``i``.

        Raises:
            IndexError: There is no record ``i``; negative numbers are not counted from the end.
            ChecksumError: The chunk is damaged.
            FormatError: The file and the index differ.
            ValueError: The file is closed.
        """
        reader = self._open_reader()
        return self._record(reader, *self.index.locate(operator.index(i)))

    def get_many(self, ordinals: Iterable[SupportsIndex]) -> list[bytes]:
        """Return records in the requested order; an ordinal may be repeated.

        Each chunk is read and decoded once, in the order of the file.

        Args:
            ordinals: A list, or an integer array of shape ``(n,)``.

        Raises:
            IndexError: An ordinal is out of range; nothing was read.
            ChecksumError: A chunk is damaged.
            FormatError: The file and the index differ.
            ValueError: The file is closed.
        """
        reader = self._open_reader()
        numbers, places = self._locate(ordinals)
        if (rows := self._mapped_rows(numbers, places)) is not None:
            # tolist() turns items of a void dtype into bytes.
            records: list[bytes] = rows.view(f"V{rows.shape[1]}")[:, 0].tolist()
            return records
        return self._get(reader, numbers, places)

    def gather(self, ordinals: Iterable[SupportsIndex]) -> NDArray[np.uint8]:
        """Return records of one size as the rows of an array, in the requested order.

        Args:
            ordinals: A list, or an integer array of shape ``(n,)``.

        Returns:
            Shape ``(n, record_bytes)``, in memory of its own; ``(0, 0)`` for no ordinals.

        Raises:
            IndexError: An ordinal is out of range; nothing was read.
            ChecksumError: A chunk is damaged.
            FormatError: The records differ in size, or the file and the index differ.
            ValueError: The file is closed.
        """
        reader = self._open_reader()
        numbers, places = self._locate(ordinals)
        if not len(numbers):
            return np.empty((0, 0), np.uint8)
        if (rows := self._mapped_rows(numbers, places)) is not None:
            return rows
        records = self._get(reader, numbers, places)
        sizes = set(map(len, records))
        if len(sizes) > 1:
            raise FormatError(
                f"expected records of one size, they have {min(sizes)} to {max(sizes)} bytes",
                path=self._source.path,
            )
        return np.frombuffer(bytearray().join(records), np.uint8).reshape(len(records), -1)

    def close(self) -> None:
        """Close the file; safe to call twice."""
        self._reader = None
        self._closing.close()

    def __enter__(self) -> Self:
        """Return the object itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the file."""
        self.close()

    def _open_reader(self) -> ChunkReader:
        if self._reader is None:
            raise ValueError("the file is closed")
        return self._reader

    def _locate(
        self, ordinals: Iterable[SupportsIndex]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the number of each record's chunk and its place in it, both of shape ``(n,)``."""
        values: Any = ordinals
        if not (isinstance(ordinals, np.ndarray) and ordinals.dtype.kind in "iu"):
            values = [operator.index(i) for i in ordinals]
        exact: NDArray[Any] = np.asarray(values)
        for value in (exact.min(), exact.max()) if exact.size else ():
            # Checks the smallest and the largest ordinal before anything is read; raises
            # IndexError.
            self.index.locate(int(value))
        wanted = exact.astype(np.int64)
        numbers = np.searchsorted(self._ends, wanted, side="right")
        return numbers, wanted - self._firsts[numbers]

    def _mapped_rows(
        self, numbers: NDArray[np.int64], places: NDArray[np.int64]
    ) -> NDArray[np.uint8] | None:
        """Return records as rows; None unless all are mapped, verified, and of one size."""
        strides = self._strides[numbers]
        stride = int(strides[0]) if len(strides) else _UNSEEN
        if stride <= LENGTH.size or np.any(strides != stride):
            return None
        if (view := self._source.view(0, self._source.num_bytes())) is None:
            return None
        # A record of an uncompressed chunk: start of the payload, ``place`` strides (length word
        # and data), one length word.
        starts = self._payloads[numbers] + places * stride + LENGTH.size
        return _rows_at(view, starts, stride - LENGTH.size)

    def _get(
        self, reader: ChunkReader, numbers: NDArray[np.int64], places: NDArray[np.int64]
    ) -> list[bytes]:
        records = [b""] * len(numbers)
        number_of, place_of = numbers.tolist(), places.tolist()
        # By chunk, so that each chunk is decoded once; ``rank`` is the place in the result.
        for rank in np.argsort(numbers, kind="stable").tolist():
            records[rank] = self._record(reader, number_of[rank], place_of[rank])
        return records

    def _record(self, reader: ChunkReader, number: int, place: int) -> bytes:
        if number != self._number:
            if stride := int(self._strides[number]):
                start, end = place * stride, (place + 1) * stride
                if stride == _UNEVEN:
                    start, end = self._known_bounds[number][place : place + 2]
                first = int(self._payloads[number]) + LENGTH.size
                return self._stored(first + start, end - start - LENGTH.size)
            self._decode(reader, number)
        start, end = self._bounds[place : place + 2]
        return bytes(self._framing[start + LENGTH.size : end])

    def _stored(self, offset_bytes: int, num_bytes: int) -> bytes:
        """Return bytes of a chunk that was verified before."""
        if (view := self._source.view(offset_bytes, num_bytes)) is not None:
            return bytes(view)
        data = bytearray(num_bytes)
        self._source.read_into(offset_bytes, memoryview(data))
        return bytes(data)

    def _decode(self, reader: ChunkReader, number: int) -> None:
        chunk = self.index.chunks[number]
        # Reading overwrites the buffers, also when it fails: the kept chunk is no longer valid.
        self._number = None
        with located(self._source.path, chunk.offset_bytes, number):
            self._framing = reader.read_known(chunk)
            self._bounds = record_bounds(self._framing, chunk.num_records)
        self._number = number
        if chunk.codec is Codec.NONE:
            self._strides[number] = stride = _stride_of(self._bounds)
            if stride == _UNEVEN:
                self._known_bounds[number] = self._bounds


def _stride_of(bounds: array[int]) -> int:
    """Return the distance between records; ``_UNEVEN`` if distances differ."""
    steps = np.diff(np.frombuffer(bounds, np.uint64))
    return int(steps[0]) if np.all(steps == steps[0]) else _UNEVEN


def _rows_at(data: memoryview, starts: NDArray[np.int64], num_bytes: int) -> NDArray[np.uint8]:
    """Return ``num_bytes`` bytes at each of ``starts``, shape ``(n, num_bytes)``."""
    flat = np.frombuffer(data, np.uint8)
    # Row k is the bytes from k on: rows overlap, and indexing copies the chosen ones only.
    rows = as_strided(flat, (flat.size - num_bytes + 1, num_bytes), (1, 1), writeable=False)
    return rows[starts]


# --- Reads and decompresses many chunks in a given order, in one thread or ahead in several

_T = TypeVar("_T")

# Number of chunks per thread that may be decoded before they are requested.
_AHEAD: Final = 2


class ChunkPlace(NamedTuple):
    """A chunk of a file.

    Attributes:
        file: A path or a mapped file; a binary file only with one thread.
        info: Entry of the chunk in an index.
        number: Number of the chunk in the file, for messages; None when unknown.
    """

    file: ReadableFile
    info: ChunkInfo
    number: int | None = None

    def located(self) -> AbstractContextManager[None]:
        """Add file, byte offset and chunk number to the format errors of a block."""
        return located(path_of(self.file), self.info.offset_bytes, self.number)


class BufferPool:
    """Memory for chunks, shared by several calls of ``read_chunks``.

    New memory costs a page fault per 4 KiB, which can take longer than reading. Threads may share
    the object.
    """

    def __init__(self) -> None:
        self._free: list[ChunkBuffers] = []

    def take(self) -> ChunkBuffers:
        """Return unused buffers, new ones if there are none."""
        try:
            return self._free.pop()
        except IndexError:
            return ChunkBuffers()

    def give(self, buffers: ChunkBuffers) -> None:
        """Give ``buffers`` back for further use."""
        self._free.append(buffers)


def read_chunks(
    places: Iterable[ChunkPlace],
    *,
    threads: int = 1,
    lend: bool = True,
    max_raw_bytes: int = MAX_RAW_BYTES,
    pool: BufferPool | None = None,
) -> Iterator[tuple[ChunkPlace, memoryview]]:
    """Read the chunks that indexes describe.

    Args:
        places: The chunks; iterated in the caller's thread. Each thread keeps the file of its
            latest chunk open, so the chunks of one file should follow each other.
        threads: Number of chunks that are read and decompressed at once. More than one thread
            reads ahead of the caller, by up to two chunks per thread.
        lend: Whether memory is used again; otherwise every framing has memory of its own.
        max_raw_bytes: Limit for the bytes of a chunk's framing; a larger chunk is refused.
        pool: Source of lent memory; takes it back at the end.

    Yields:
        Each chunk and its framing, with verified checksum and length, in the order of ``places``.
        A lent framing is valid until the next one is requested; that of an uncompressed chunk in a
        mapped file stays valid.

    Raises:
        TruncatedError: A file ends inside a chunk.
        ChecksumError: A payload is damaged.
        FormatError: A file and its index differ, or a chunk is larger than allowed.
        ConfigError: ``threads`` is below 1.
    """
    lent = (pool or BufferPool()) if lend else None

    def read(
        desk: _Desk, _number: int, place: ChunkPlace
    ) -> tuple[ChunkPlace, memoryview, ChunkBuffers]:
        # Without lending, every framing keeps memory of its own.
        buffers = lent.take() if lent else ChunkBuffers()
        return place, desk.read(place, buffers), buffers

    for place, framing, buffers in _each(places, read, threads, max_raw_bytes):
        yield place, framing
        if lent:
            # The caller is done with the framing when it requests the next one: the buffers are
            # free.
            lent.give(buffers)


def decode_chunks(
    places: Iterable[ChunkPlace],
    decode: Callable[[int, memoryview], _T],
    *,
    threads: int = 1,
    max_raw_bytes: int = MAX_RAW_BYTES,
    pool: BufferPool | None = None,
) -> Iterator[_T]:
    """Read the chunks that indexes describe, and decode each in the thread that read it.

    Args:
        places: See ``read_chunks``.
        decode: Function from the number of a place in ``places`` and its framing to the result.
        threads: See ``read_chunks``; ``decode`` is called in these threads.
        max_raw_bytes: See ``read_chunks``.
        pool: Source of the framings' memory, which goes back when ``decode`` returns. With None
            every framing has memory of its own, so results may hold views of it.

    Yields:
        The result of ``decode`` for each chunk, in the order of ``places``.

    Raises:
        TruncatedError: A file ends inside a chunk.
        ChecksumError: A payload is damaged.
        FormatError: A file and its index differ, or a chunk is larger than allowed.
        ConfigError: ``threads`` is below 1.
    """

    def work(desk: _Desk, number: int, place: ChunkPlace) -> _T:
        buffers = pool.take() if pool else ChunkBuffers()
        decoded = decode(number, desk.read(place, buffers))
        if pool:
            pool.give(buffers)
        return decoded

    return _each(places, work, threads, max_raw_bytes)


def _each(
    places: Iterable[ChunkPlace],
    work: Callable[[_Desk, int, ChunkPlace], _T],
    threads: int,
    max_raw_bytes: int,
) -> Iterator[_T]:
    """Yield the result of ``work`` for each place, in order."""
    if threads < 1:
        raise ConfigError(f"expected at least 1 thread, got {threads}")
    with ExitStack() as closing:
        desks = [_Desk(max_raw_bytes) for _ in range(threads)]
        for desk in desks:
            closing.callback(desk.close)
        if threads == 1:
            yield from (work(desks[0], number, place) for number, place in enumerate(places))
        else:
            executor = closing.enter_context(ThreadPoolExecutor(threads, "chunks"))
            yield from _Ahead(executor, desks, work).iterate(places)


class _Desk:
    """Reads chunks for one thread, and keeps the file of the latest chunk open."""

    def __init__(self, max_raw_bytes: int) -> None:
        self._max_raw_bytes = max_raw_bytes
        self._file: ReadableFile | None = None
        self._closing = ExitStack()

    def read(self, place: ChunkPlace, buffers: ChunkBuffers) -> memoryview:
        """Return the framing of a chunk."""
        # Neighbouring chunks are mostly in one file, which is opened once.
        if place.file is not self._file:
            self.close()
            self._source = self._closing.enter_context(open_source(place.file))
            self._file = place.file
        reader = ChunkReader(self._source, buffers, self._max_raw_bytes)
        with located(self._source.path, place.info.offset_bytes, place.number):
            return reader.read_known(place.info)

    def close(self) -> None:
        """Close the file."""
        self._file = None
        self._closing.close()


class _Ahead(Generic[_T]):
    """Runs ``work`` for the next chunks in threads; each call takes a free ``_Desk``."""

    def __init__(
        self,
        executor: ThreadPoolExecutor,
        desks: list[_Desk],
        work: Callable[[_Desk, int, ChunkPlace], _T],
    ) -> None:
        self._executor = executor
        self._work = work
        self._num_ahead = _AHEAD * len(desks)
        self._desks: SimpleQueue[_Desk] = SimpleQueue()
        for desk in desks:
            self._desks.put(desk)

    def iterate(self, places: Iterable[ChunkPlace]) -> Iterator[_T]:
        """Yield the results of the chunks, in order."""
        pending: deque[Future[_T]] = deque()
        try:
            for number, place in enumerate(places):
                pending.append(self._executor.submit(self._do, number, place))
                # Results wait in order; a slow chunk holds back at most this many decoded ones.
                if len(pending) > self._num_ahead:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                # Chunks that were not begun are dropped; the executor waits for the others at its
                # end.
                future.cancel()

    def _do(self, number: int, place: ChunkPlace) -> _T:
        # There are as many desks as threads, so one is always free here.
        desk = self._desks.get_nowait()
        try:
            return self._work(desk, number, place)
        finally:
            self._desks.put(desk)

"""Writing of records: chunks are filled, framed and written, or appended to a file."""

from __future__ import annotations

import fcntl
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import repeat
from typing import Any, BinaryIO, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import (
    BadMagicError,
    ChecksumError,
    ConfigError,
    ConflictError,
    FormatError,
    TruncatedError,
)
from trainfeed.files import FilePath, TargetWriter, os_errors, plain_fd
from trainfeed.recordio.chunk import (
    ByteSource,
    ChunkBuffers,
    ChunkReader,
    encode_chunk,
    open_source,
    read_header,
)
from trainfeed.recordio.compression import resolve_level
from trainfeed.recordio.format import (
    HEADER_BYTES,
    LENGTH,
    MAX_RAW_BYTES,
    ChunkInfo,
    Codec,
    located,
    record_bounds,
)
from trainfeed.recordio.salvage import ChunkResync

# --- A chunk that is being filled: records with their lengths, up to its limits

# Records up to this size are small: 256 of them fit the default chunk of 1 MiB.
_SMALL_RECORD_BYTES: Final = 4096


class ChunkLimits(NamedTuple):
    """When a chunk is full.

    Attributes:
        max_chunk_bytes: Bytes of records, without their lengths.
        max_raw_bytes: Bytes of framing, with the lengths.
        quantum_records: Chunks of small records are cut at multiples of this number.
    """

    max_chunk_bytes: int
    max_raw_bytes: int
    quantum_records: int


class ChunkFraming:
    """The chunk that is being filled: collects records up to its limits.

    Records are kept as they are, and joined once, when the chunk is taken. Writing must be cheap
    for records that are as long as the one before: ``room`` such records are granted in advance.
    The writer appends them to ``records`` without a call, and ``settle`` counts them later.

    Attributes:
        room: Number of records of ``size`` bytes that the writer may append to ``records`` without
            a call; it subtracts one for each.
        size: Size of the records that ``room`` is for; -1 for none.
        records: Records that were added one by one; they follow all others.
    """

    def __init__(self, limits: ChunkLimits) -> None:
        self._max_chunk_bytes, self._max_raw_bytes, self._quantum_records = limits
        self.room, self.size = 0, -1
        self.records: list[bytes] = []
        # The sizes that occur in ``records`` (perhaps with further ones), and the framing of all
        # records before these.
        self._sizes: set[int] = set()
        self._before: bytes | memoryview = b""
        self._memory = _FillMemory()
        # Counts of all records but those granted since; _quantum_bytes is the length of the
        # framing up to the last multiple of the quantum.
        self._granted = self._num_records = self._record_bytes = self._quantum_bytes = 0
        self._has_large = False

    @property
    def num_records(self) -> int:
        """Number of records in the chunk."""
        return self._num_records + self._granted - self.room

    def append(self, record: bytes) -> bool:
        """Add a record; return False if it must go to the next chunk. The first one always fits.

        Raises:
            FormatError: The record is too large for any chunk.
        """
        if self._granted:
            self.settle()
        size = len(record)
        num_records, record_bytes = self._num_records + 1, self._record_bytes + size
        framing_bytes = record_bytes + LENGTH.size * num_records
        if record_bytes > self._max_chunk_bytes or framing_bytes > self._max_raw_bytes:
            self.require_fit(size)
            if num_records > 1:
                return False
        self.records.append(record)
        self._num_records, self._record_bytes = num_records, record_bytes
        # Records up to the next multiple of the quantum; 0 at a multiple.
        until_quantum = -num_records % self._quantum_records
        if not until_quantum:
            self._quantum_bytes = framing_bytes
        if size == self.size:
            # Only up to the next multiple of the quantum, whose framing length must be noted.
            self._granted = self.room = min(self._room_for(size), until_quantum)
        else:
            self.size = size
            self._sizes.add(size)
            self._has_large |= size > _SMALL_RECORD_BYTES
        return True

    def extend(self, records: NDArray[np.void]) -> int:
        """Add records of one size, as many as belong into this chunk; return their number.

        Args:
            records: Shape ``(n,)``, dtype ``V<size>``.

        Raises:
            FormatError: A record is too large for any chunk.
        """
        size = records.itemsize
        self.require_fit(size)
        self.settle()
        room = self._room_for(size) if self._num_records else max(self._room_for(size), 1)
        num_records = min(len(records), room)
        if len(records) > room and not (self._has_large or size > _SMALL_RECORD_BYTES):
            # The next record closes the chunk, and ``take`` would leave the records beyond the
            # last multiple of the quantum: they are not added at all.
            beyond = (self._num_records + room) % self._quantum_records
            if beyond < self._num_records + room:
                num_records = max(room - beyond, 0)
        if num_records:
            if before := bytes(self._framing(self.records)):
                self._before = before + self._framed(records[:num_records])
            else:
                self._before = self._framed(records[:num_records])
            self.records = []
            self._count(num_records, size)
        return num_records

    def take(self, *, last: bool = False) -> tuple[memoryview, int]:
        """Return the framing of a full chunk, and its number of records.

        The framing's memory is used again when no view of it is left.

        Args:
            last: No record follows, so all records are taken, without regard to the quantum.
        """
        self.settle()
        framing_bytes, num_left = self._framing_bytes(), 0
        if self._quantum_bytes and not (last or self._has_large):
            num_left = self._num_records % self._quantum_records
        num_taken = self._num_records - num_left
        if num_left <= len(self.records):
            # The remaining records were added one by one: they stay in the list.
            end = len(self.records) - num_left
            framing, self._before = memoryview(self._framing(self.records[:end])), b""
            self.records = self.records[end:]
        else:
            whole = memoryview(self._framing(self.records))
            framing, self._before = (
                whole[: self._quantum_bytes],
                bytes(whole[self._quantum_bytes :]),
            )
            self.records = []
        self._num_records, self._quantum_bytes = num_left, 0
        self._record_bytes = framing_bytes - len(framing) - LENGTH.size * num_left
        # Only chunks of small records leave a rest, so the rest has no large record.
        self._has_large, self.size, self._sizes = False, -1, set(map(len, self.records))
        return framing, num_taken

    def require_fit(self, num_bytes: int) -> None:
        """Refuse a record that is too large for any chunk.

        Raises:
            FormatError: The record is too large.
        """
        if LENGTH.size + num_bytes > self._max_raw_bytes:
            raise FormatError(
                f"expected a record of at most {self._max_raw_bytes - LENGTH.size} bytes,"
                f" got {num_bytes}; raise max_raw_bytes of the writer and of every reader"
            )

    def settle(self) -> None:
        """Count the granted records that were appended, and withdraw the rest of ``room``."""
        if num_records := self._granted - self.room:
            self._count(num_records, self.size)
        self._granted = self.room = 0

    def _count(self, num_records: int, size: int) -> None:
        self._num_records += num_records
        self._record_bytes += num_records * size
        self._has_large |= size > _SMALL_RECORD_BYTES
        # The new records have passed a multiple of the quantum if fewer of them lie after it.
        beyond = self._num_records % self._quantum_records
        if beyond < num_records:
            self._quantum_bytes = self._framing_bytes() - beyond * (LENGTH.size + size)

    def _framing_bytes(self) -> int:
        return self._record_bytes + LENGTH.size * self._num_records

    def _room_for(self, num_bytes: int) -> int:
        """Return how many records of ``num_bytes`` still fit into the chunk."""
        by_framing = (self._max_raw_bytes - self._framing_bytes()) // (LENGTH.size + num_bytes)
        if not num_bytes:
            return by_framing
        return max(min(by_framing, (self._max_chunk_bytes - self._record_bytes) // num_bytes), 0)

    def _framing(self, records: list[bytes]) -> bytes | memoryview:
        """Return the framing before ``records``, followed by the framing of these records."""
        if not records:
            return self._before
        # Alternating: [before, length, record, length, record, …].
        pieces: list[bytes | memoryview] = [self._before] * (2 * len(records) + 1)
        pieces[1::2] = (
            repeat(LENGTH.pack(*self._sizes), len(records))
            if len(self._sizes) == 1
            else map(LENGTH.pack, map(len, records))
        )
        pieces[2::2] = records
        return self._memory.joined(pieces)

    def _framed(self, records: NDArray[np.void]) -> memoryview:
        """Return the framing of records of one size."""
        dtype = np.dtype([("length", "<u4"), ("record", f"V{records.itemsize}")])
        memory = self._memory.of(len(records) * dtype.itemsize)
        framed = np.frombuffer(memory, dtype)
        framed["length"] = records.itemsize
        framed["record"] = records
        return memory


class _FillMemory:
    """Memory that is used again once no view of it is left.

    The page faults of new memory for every chunk would cost more than filling it.
    """

    def __init__(self) -> None:
        self._streams: list[io.BytesIO] = []

    def joined(self, pieces: list[bytes | memoryview]) -> memoryview:
        """Return all pieces joined."""
        stream = self._free_stream()
        stream.writelines(pieces)
        return stream.getbuffer()[: stream.tell()]

    def of(self, num_bytes: int) -> memoryview:
        """Return memory for ``num_bytes``, at least 1."""
        stream = self._free_stream()
        if stream.seek(0, io.SEEK_END) < num_bytes:
            stream.seek(num_bytes - 1)
            stream.write(b"\0")
        return stream.getbuffer()[:num_bytes]

    def _free_stream(self) -> io.BytesIO:
        for stream in self._streams:
            stream.seek(0)
            try:
                # A BytesIO refuses writes (BufferError) while a view from getbuffer() exists: the
                # test whether the memory is free.
                stream.write(b"")
            except BufferError:
                continue
            return stream
        self._streams.append(io.BytesIO())
        return self._streams[-1]


# --- Collects records into chunks and writes them; equal records give equal bytes

# Offsets in a framing of this size fit into int32, and the length of any payload into uint32.
_LARGEST_RAW_BYTES: Final = (1 << 31) - 1


class RecordWriter(TargetWriter):
    """Writes records to a file.

    A chunk is closed before a record that would make its records, without their lengths, exceed
    ``max_chunk_bytes``; so only a chunk of a single record can be larger. If no record of a full
    chunk is larger than 4 KiB, the records beyond a multiple of ``quantum_records`` go to the next
    chunk, so that batches of a reader lie within one chunk.

    The end of the context closes the file; after an exception it drops the file. After an error of
    the file the writer is closed, and its output must not be used. Threads must not share it.

    A writer without records leaves a file of 0 bytes.

    Args:
        target: A path, where the file appears when the writer is closed; or a binary file, which
            receives chunks from its position on, some of them only when the writer is closed, and
            stays open.
        codec: How chunks are compressed.
        level: 1 to 22 for ZSTD, 1 to 9 for GZIP; None for the default, and for other codecs.
        max_chunk_bytes: Record bytes at which a chunk is closed. With 0 every record that is not
            empty gets a chunk of its own.
        quantum_records: See above; with 1 every chunk is filled up.
        max_raw_bytes: Limit for the bytes of a chunk's framing. Readers refuse chunks beyond the
            default unless they get the same limit.

    Attributes:
        chunks: The chunks so far; complete, and in the file, after ``close``.

    Raises:
        ConflictError: A file exists at the path.
        ConfigError: The codec has no such level, or an option is out of range.
    """

    # Whether chunks may wait for further ones, which are written with the same call.
    _gathers_chunks: ClassVar[bool] = True

    def __init__(
        self,
        target: FilePath | BinaryIO,
        *,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        max_chunk_bytes: int = 1 << 20,
        quantum_records: int = 256,
        max_raw_bytes: int = MAX_RAW_BYTES,
    ) -> None:
        self.chunks: list[ChunkInfo] = []
        self._codec = Codec(codec)
        self._level = resolve_level(self._codec, level)
        limits = _checked_limits(max_chunk_bytes, max_raw_bytes, quantum_records)
        self._pending = ChunkFraming(limits)
        self._num_written = 0
        super().__init__(target)
        self._offset_bytes: int = self._require_open().tell()

    @property
    def num_records(self) -> int:
        """Number of records so far, including those that are not in a chunk yet."""
        return self._num_written + self._pending.num_records

    def write(self, record: bytes | bytearray | memoryview) -> None:
        """Add a record.

        Raises:
            FormatError: The record does not fit into a chunk of ``max_raw_bytes``.
            QuotaExceededError: The disk is full.
            StorageError: The file refused the bytes.
        """
        pending = self._pending
        # The path of most records; without a further call it takes half of a record's whole cost.
        if (room := pending.room) and type(record) is bytes and len(record) == pending.size:
            pending.room = room - 1
            pending.records.append(record)
        else:
            self._write(record)

    def write_array(self, records: NDArray[Any]) -> None:
        """Add records of one size; the file is the same as from ``write`` for each of them.

        Args:
            records: Shape ``(n,)``, any dtype without Python objects, usually a structured one;
                the bytes of an item are a record.

        Raises:
            FormatError: An item does not fit into a chunk of ``max_raw_bytes``.
            QuotaExceededError: The disk is full.
            StorageError: The file refused the bytes.
        """
        self._require_open()
        if records.ndim != 1 or records.dtype.hasobject or not records.itemsize:
            raise TypeError(
                "expected an array of shape (n,) without Python objects, got"
                f" {records.dtype} {records.shape}"
            )
        # As plain bytes, so that all dtypes are framed by the same code.
        items = np.ascontiguousarray(records).view(f"V{records.itemsize}")
        # ``extend`` takes as many as fit; a full chunk is written before the rest is tried.
        while len(items := items[self._pending.extend(items) :]):
            self._write_chunk()

    def _write(self, record: bytes | bytearray | memoryview) -> None:
        self._require_open()
        data = record if type(record) is bytes else bytes(memoryview(record))
        # False means that the chunk is full; a record always fits the empty chunk that follows.
        while not self._pending.append(data):
            self._write_chunk()

    def _write_chunk(self, *, last: bool = False) -> None:
        framing, num_records = self._pending.take(last=last)
        chunk = encode_chunk(framing, num_records, codec=self._codec, level=self._level)
        # The payload may be the framing itself, whose memory is not used again while the payload
        # waits.
        put = self._put_later if self._gathers_chunks else self._put
        put(chunk.header.dump(), chunk.payload)
        info = ChunkInfo(
            offset_bytes=self._offset_bytes,
            stored_bytes=len(chunk.payload),
            raw_bytes=len(framing),
            num_records=num_records,
            crc32=chunk.header.crc32,
            codec=self._codec,
        )
        self.chunks.append(info)
        self._offset_bytes = info.end_bytes
        self._num_written += num_records

    def _write_rest(self) -> None:
        if self._pending.num_records:
            self._write_chunk(last=True)

    def _end(self) -> None:
        super()._end()
        # Withdraws the granted room, so that every later write goes through _write, which raises.
        self._pending.settle()


def _checked_limits(max_chunk_bytes: int, max_raw_bytes: int, quantum_records: int) -> ChunkLimits:
    if max_chunk_bytes < 0 or quantum_records < 1:
        raise ConfigError(
            "expected max_chunk_bytes from 0 and quantum_records from 1, got"
            f" {max_chunk_bytes} and {quantum_records}"
        )
    if not LENGTH.size <= max_raw_bytes <= _LARGEST_RAW_BYTES:
        raise ConfigError(
            f"expected max_raw_bytes from {LENGTH.size} to {_LARGEST_RAW_BYTES}, got"
            f" {max_raw_bytes}"
        )
    return ChunkLimits(max_chunk_bytes, max_raw_bytes, quantum_records)


# --- Appends to a file whose last writer may have died in the middle of a chunk


class RecordAppender(RecordWriter):
    """Writes records after those of a file, after cutting off a torn tail that a crash has left.

    Opening walks through the headers, verifies the last chunk, cuts the file after the last whole
    chunk and makes the cut durable. A damaged place with whole chunks after it is not a torn
    tail: opening raises, and cuts nothing. The appender holds a lock on the file, so that two
    appenders cannot cut each other's chunks; a reader may see a torn chunk meanwhile. Chunks of
    the file may have other codecs than new ones.

    The end of the context makes the file durable; after an exception it cuts off everything that
    the appender wrote. When the file refuses bytes, the appender does the same, and closes.

    Args:
        path: The file; it must exist. Its chunks before the last are not verified.
        codec: How new chunks are compressed.
        level: See ``RecordWriter``.
        max_chunk_bytes: See ``RecordWriter``.
        quantum_records: See ``RecordWriter``.
        max_raw_bytes: See ``RecordWriter``; the last chunk of the file must not be larger either.

    Attributes:
        num_cut_bytes: Number of bytes that opening cut off.
        chunks: The chunks that were appended so far.

    Raises:
        NotFoundError: No file is at the path.
        ConflictError: Another appender holds the lock of the file.
        BadMagicError: The file is not a RecordIO file, or its damage is not a torn tail.
        TruncatedError: The end looks torn because a length is damaged.
        UnsupportedCodecError: A chunk has a codec that this version does not know.
        FormatError: The file is damaged in another way, has another layout, or is not a plain file.
        ConfigError: The codec has no such level, or an option is out of range.
    """

    # A reader sees every chunk as soon as it is complete, and a crash leaves it.
    _gathers_chunks: ClassVar[bool] = False

    def __init__(
        self,
        path: FilePath,
        *,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        max_chunk_bytes: int = 1 << 20,
        quantum_records: int = 256,
        max_raw_bytes: int = MAX_RAW_BYTES,
    ) -> None:
        self._path = os.fspath(path)
        # Order: lock, find the end of the last whole chunk, check the options, and only then cut.
        with _closed_on_error(_open_locked(self._path)) as self._appended:
            with open_source(self._appended.fileno()) as source:
                end_bytes = source.num_bytes()
                self._start_bytes = _whole_bytes(source, self._path, max_raw_bytes)
            self._appended.seek(self._start_bytes)
            # Before the cut, because this call refuses options that are out of range.
            super().__init__(
                self._appended,
                codec=codec,
                level=level,
                max_chunk_bytes=max_chunk_bytes,
                quantum_records=quantum_records,
                max_raw_bytes=max_raw_bytes,
            )
            self.num_cut_bytes = end_bytes - self._start_bytes
            if self.num_cut_bytes:
                self._cut()

    def close(self) -> None:
        """Write the last chunk, make the file durable, and release the lock.

        Does nothing on a closed appender.

        Raises:
            QuotaExceededError: The disk is full.
            StorageError: The file refused the bytes, or could not be synced.
        """
        super().close()
        if not self._appended.closed:
            with _closed_on_error(self._appended), os_errors(self._path):
                os.fsync(self._appended.fileno())
            self._appended.close()

    def _abandon(self) -> None:
        super()._abandon()
        if not self._appended.closed:
            with _closed_on_error(self._appended):
                self._cut()
            self._appended.close()

    def _cut(self) -> None:
        with os_errors(self._path):
            # Cut and synced in this order, before the first new chunk is written.
            os.ftruncate(self._appended.fileno(), self._start_bytes)
            os.fsync(self._appended.fileno())


def _open_locked(path: str) -> BinaryIO:
    with os_errors(path):
        file = os.fdopen(plain_fd(path, follow=True, write=True), "r+b", buffering=0)
        with _closed_on_error(file):
            try:
                # The lock is held until the file is closed; the kernel releases it when the
                # process dies.
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ConflictError(
                    f"{path} is being appended to; wait until it is closed"
                ) from error
    return file


@contextmanager
def _closed_on_error(file: BinaryIO) -> Iterator[BinaryIO]:
    try:
        yield file
    except BaseException:
        file.close()
        raise


def _whole_bytes(source: ByteSource, path: str, max_raw_bytes: int) -> int:
    """Return the end of the last whole chunk; the bytes after it are a torn tail.

    Raises:
        FormatError: The bytes are not a torn tail, or the file is not a RecordIO file.
    """
    end_bytes = source.num_bytes()
    reader = ChunkReader(source, ChunkBuffers(), max_raw_bytes)
    resync = ChunkResync(source, reader, end_bytes)
    offsets, error = _walk_headers(source, path, end_bytes)
    if error is not None:
        # Two checks before anything is cut: the file begins with a chunk, and no whole chunk
        # follows the damage.
        _require_record_file(resync, offsets[-1], error)
        _require_torn(resync, offsets[-1], error)
    # Headers were checked on the walk, payloads only here: from the end back to the first chunk
    # that verifies.
    while len(offsets) > 1:
        start_bytes = offsets[-2]
        try:
            with located(path, start_bytes, len(offsets) - 2):
                info, framing = reader.read(start_bytes, offsets[-1])
                record_bounds(framing, info.num_records)
        # A chunk whose payload did not reach the disk before a crash: it counts as torn too.
        except ChecksumError as error:
            _require_torn(resync, start_bytes, error)
            offsets.pop()
        else:
            break
    return offsets[-1]


def _walk_headers(
    source: ByteSource, path: str, end_bytes: int
) -> tuple[list[int], FormatError | None]:
    """Return the starts of chunks, the end of the last one, and the error found there."""
    offsets = [0]
    try:
        while offsets[-1] < end_bytes:
            # Only headers are read: a walk over a large file reads 20 bytes per chunk.
            with located(path, offsets[-1], len(offsets) - 1):
                header = read_header(source, offsets[-1], end_bytes)
            offsets.append(offsets[-1] + HEADER_BYTES + header.stored_bytes)
    except (TruncatedError, BadMagicError) as error:
        return offsets, error
    return offsets, None


def _require_record_file(resync: ChunkResync, stop_bytes: int, error: FormatError) -> None:
    """Raise if the file does not begin with a chunk: any other file would be cut to nothing."""
    if stop_bytes == 0 and not resync.starts_chunk(0):
        raise BadMagicError(
            "expected a record file, no chunk starts here; nothing was cut",
            path=error.path,
            offset_bytes=0,
        )


def _require_torn(resync: ChunkResync, start_bytes: int, error: FormatError) -> None:
    """Raise ``error`` if a whole chunk is at or after ``start_bytes``.

    A damaged length leads the walk to a wrong place, which looks like a torn tail. The bytes of a
    whole chunk might also be part of a record; that counts as a chunk here too, because a cut
    cannot be undone.
    """
    if resync.gap_at(start_bytes).is_whole:
        place = "here"
    elif (chunk_bytes := resync.next_chunk(start_bytes)) < resync.end_bytes:
        place = f"at byte {chunk_bytes}"
    else:
        return
    error.args = (
        f"{error.args[0]}; a whole chunk is {place}, so this is no torn tail; nothing was cut",
    )
    raise error

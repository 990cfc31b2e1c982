"""A chunk that is being filled: records with their lengths, up to its limits."""

from __future__ import annotations

import io
from itertools import repeat
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import FormatError
from trainfeed.recordio._recordio_format import LENGTH

__all__ = ["ChunkFraming", "ChunkLimits"]

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

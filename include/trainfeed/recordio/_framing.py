"""Framing: records with their lengths, as they are before compression."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import FormatError
from trainfeed.recordio._format import LENGTH

__all__ = [
    "ChunkFraming",
    "ChunkLimits",
    "check_sizes",
    "iter_records",
    "record_bounds",
    "split_records",
]

# Records up to this size are small: 256 of them fit the default chunk of 1 MiB.
_SMALL_RECORD_BYTES: Final = 4096


class ChunkLimits(NamedTuple):
    """When a chunk is full.

    Attributes:
        max_chunk_bytes: Bytes of records, lengths not counted.
        max_raw_bytes: Bytes of framing, lengths counted.
        quantum_records: Chunks of small records are cut at multiples of it.
    """

    max_chunk_bytes: int
    max_raw_bytes: int
    quantum_records: int


class ChunkFraming:
    """The chunk that is being filled: collects records up to its limits.

    Records are kept in parts and joined once, when the chunk is taken.

    Attributes:
        num_records: How many it holds.
    """

    def __init__(self, limits: ChunkLimits) -> None:
        self._max_chunk_bytes, self._max_raw_bytes, self._quantum_records = limits
        self._parts: list[bytes | memoryview] = []
        self._num_bytes = 0
        self._record_bytes = 0
        self._has_large = False
        # Parts and bytes up to the last multiple of the quantum.
        self._quantum_end = (0, 0)
        self._length, self._length_bytes = LENGTH.pack(0), 0
        self.num_records = 0

    def append(self, record: bytes) -> bool:
        """Add a record; return whether it had room. The first one always has.

        Raises:
            FormatError: It fits no chunk.
        """
        num_bytes = len(record)
        record_bytes = self._record_bytes + num_bytes
        framing_bytes = self._num_bytes + num_bytes + 4
        if record_bytes > self._max_chunk_bytes or framing_bytes > self._max_raw_bytes:
            self.require_fit(num_bytes)
            if self.num_records:
                return False
        if num_bytes != self._length_bytes:
            self._length, self._length_bytes = LENGTH.pack(num_bytes), num_bytes
            self._has_large |= num_bytes > _SMALL_RECORD_BYTES
        self._parts += (self._length, record)
        self._record_bytes, self._num_bytes = record_bytes, framing_bytes
        self.num_records = num_records = self.num_records + 1
        if not num_records % self._quantum_records:
            self._quantum_end = len(self._parts), framing_bytes
        return True

    def extend(self, records: NDArray[np.void]) -> int:
        """Add records of one size, as many as a chunk is to hold; return how many those are.

        Args:
            records: Shape ``(n,)``, dtype ``V<size>``.

        Raises:
            FormatError: They fit no chunk.
        """
        size = records.itemsize
        self.require_fit(size)
        num_records = min(len(records), room := self._room(size))
        self._has_large |= size > _SMALL_RECORD_BYTES
        if len(records) > room and not self._has_large:
            # The next record closes the chunk, so what is beyond the quantum need not join.
            beyond = (self.num_records + room) % self._quantum_records
            if beyond < self.num_records + room:
                num_records = max(room - beyond, 0)
        self._append_framed(_framed(records[:num_records]), num_records)
        return num_records

    def take(self, *, last: bool = False) -> tuple[memoryview, int]:
        """Return the framing of a full chunk, and its number of records.

        Args:
            last: No record follows, so all are taken, whatever the quantum.
        """
        num_parts, num_bytes = self._quantum_end
        num_taken = self.num_records - self.num_records % self._quantum_records
        if last or self._has_large or not num_parts:
            num_parts, num_bytes, num_taken = len(self._parts), self._num_bytes, self.num_records
        parts, self._parts = self._parts[:num_parts], self._parts[num_parts:]
        self._num_bytes -= num_bytes
        self.num_records -= num_taken
        self._record_bytes = self._num_bytes - LENGTH.size * self.num_records
        # The rest of a chunk of small records has none that is large.
        self._has_large, self._quantum_end = False, (0, 0)
        self._length_bytes = -1
        return memoryview(parts[0] if len(parts) == 1 else b"".join(parts)), num_taken

    def require_fit(self, num_bytes: int) -> None:
        """Refuse a record that fits no chunk.

        Raises:
            FormatError: It does not.
        """
        if LENGTH.size + num_bytes > self._max_raw_bytes:
            raise FormatError(
                f"expected a record of at most {self._max_raw_bytes - LENGTH.size} bytes,"
                f" got {num_bytes}; raise max_raw_bytes of the writer and of every reader"
            )

    def _room(self, num_bytes: int) -> int:
        """Return how many records of ``num_bytes`` each may still join."""
        by_framing = (self._max_raw_bytes - self._num_bytes) // (LENGTH.size + num_bytes)
        by_records = (self._max_chunk_bytes - self._record_bytes) // num_bytes
        return max(min(by_framing, by_records), 0 if self.num_records else 1)

    def _append_framed(self, framed: memoryview, num_records: int) -> None:
        if not num_records:
            return
        stride = len(framed) // num_records
        total = self.num_records + num_records
        beyond = total % self._quantum_records
        if beyond < num_records:
            end = len(framed) - beyond * stride
            self._parts.append(framed[:end])
            self._quantum_end = len(self._parts), self._num_bytes + end
            framed_rest = framed[end:]
        else:
            framed_rest = framed
        if framed_rest:
            self._parts.append(framed_rest)
        self._num_bytes += len(framed)
        self._record_bytes += len(framed) - LENGTH.size * num_records
        self.num_records = total


def _framed(records: NDArray[np.void]) -> memoryview:
    """Return the framing of records of one size, in memory of its own."""
    size = records.itemsize
    framed = np.empty(len(records), dtype=[("length", "<u4"), ("record", f"V{size}")])
    framed["length"] = size
    framed["record"] = records
    return framed.view(np.uint8).data


def split_records(framing: memoryview, num_records: int) -> list[memoryview]:
    """Cut a framing into its records.

    Args:
        framing: As ``iter_chunks`` and ``read_chunk`` give it.
        num_records: As the chunk's header has it.

    Returns:
        Views into ``framing``, valid as long as that is.

    Raises:
        FormatError: ``num_records`` records do not end exactly where the framing ends.
    """
    return list(iter_records(framing, record_bounds(framing, num_records)))


def iter_records(framing: memoryview, bounds: array[int]) -> Iterator[memoryview]:
    """Yield the records between consecutive bounds, as views into ``framing``."""
    for start, end in pairwise(bounds):
        yield framing[start + 4 : end]


def record_bounds(framing: memoryview, num_records: int) -> array[int]:
    """Return where the records start, lengths included, and where the last one ends.

    An array and no list of records: empty records take 4 bytes of framing each, of which a few
    kilobytes may decompress to gigabytes of Python objects.

    Raises:
        FormatError: ``num_records`` records do not end exactly where the framing ends.
    """
    check_sizes(num_records, len(framing))
    bounds = array("Q", [0])
    append, unpack, start = bounds.append, LENGTH.unpack_from, 0
    try:
        for _ in range(num_records):
            start += 4 + unpack(framing, start)[0]
            append(start)
    except struct.error:
        start = len(framing) + 1
    # The position never goes back, so this notices every length that is too large, and also a
    # damaged record count, which no checksum covers.
    if start != len(framing):
        raise FormatError(
            f"expected {num_records} records in {len(framing)} bytes of framing, they end"
            f" {'before' if start < len(framing) else 'after'} it does"
        )
    return bounds


def check_sizes(num_records: int, raw_bytes: int, max_raw_bytes: int | None = None) -> None:
    """Refuse a chunk that is too large, or too small for its records.

    Raises:
        FormatError: It is.
    """
    if max_raw_bytes is not None and raw_bytes > max_raw_bytes:
        raise FormatError(
            f"expected at most {max_raw_bytes} bytes in a chunk, it announces {raw_bytes}; raise"
            " max_raw_bytes if the file can be trusted"
        )
    if num_records * LENGTH.size > raw_bytes:
        raise FormatError(f"{num_records} records cannot be in {raw_bytes} bytes of framing")

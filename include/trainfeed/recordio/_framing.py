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

    Attributes:
        num_records: How many it holds.
    """

    def __init__(self, limits: ChunkLimits) -> None:
        self._limits = limits
        self._data = bytearray()
        self._record_bytes = 0
        self._has_large = False
        # Where the records up to the last multiple of the quantum end.
        self._quantum_end = 0
        self.num_records = 0

    def has_room(self, num_bytes: int) -> bool:
        """Return whether a record of ``num_bytes`` may still join; the first one always may."""
        return not self.num_records or (
            self._record_bytes + num_bytes <= self._limits.max_chunk_bytes
            and len(self._data) + LENGTH.size + num_bytes <= self._limits.max_raw_bytes
        )

    def room(self, num_bytes: int) -> int:
        """Return how many records of ``num_bytes`` each may still join."""
        by_framing = (self._limits.max_raw_bytes - len(self._data)) // (LENGTH.size + num_bytes)
        by_records = by_framing
        if num_bytes:
            by_records = (self._limits.max_chunk_bytes - self._record_bytes) // num_bytes
        return max(min(by_framing, by_records), 0 if self.num_records else 1)

    def append(self, record: bytes) -> None:
        """Add a record."""
        num_bytes = len(record)
        self._data += LENGTH.pack(num_bytes)
        self._data += record
        self._record_bytes += num_bytes
        self._has_large |= num_bytes > _SMALL_RECORD_BYTES
        self.num_records += 1
        if not self.num_records % self._limits.quantum_records:
            self._quantum_end = len(self._data)

    def extend(self, records: NDArray[np.void]) -> None:
        """Add records of one size, shape ``(n,)`` and dtype ``V<size>``."""
        size = records.itemsize
        framed = np.empty(len(records), dtype=[("length", "<u4"), ("record", f"V{size}")])
        framed["length"] = size
        framed["record"] = records
        total = self.num_records + len(records)
        beyond = total % self._limits.quantum_records
        self._data += framed.view(np.uint8).data
        if beyond < len(records):
            self._quantum_end = len(self._data) - beyond * framed.itemsize
        self._record_bytes += size * len(records)
        self._has_large |= size > _SMALL_RECORD_BYTES
        self.num_records = total

    def take(self, *, last: bool = False) -> tuple[bytearray, int]:
        """Return the framing of a full chunk, and its number of records.

        Args:
            last: No record follows, so all are taken, whatever the quantum.
        """
        if last or self._has_large or not self._quantum_end:
            taken = self._data, self.num_records
            self._restart(bytearray())
            return taken
        rest = self._data[self._quantum_end :]
        del self._data[self._quantum_end :]
        taken = self._data, self.num_records - self.num_records % self._limits.quantum_records
        self._restart(rest, self.num_records - taken[1])
        return taken

    def _restart(self, data: bytearray, num_records: int = 0) -> None:
        self._data = data
        self.num_records = num_records
        self._record_bytes = len(data) - LENGTH.size * num_records
        self._has_large = False
        self._quantum_end = 0


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

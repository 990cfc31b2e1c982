"""Finds the place behind a damaged record where reading can go on, by checksums.

Files have no magic numbers. Bytes count as a record if both checksums match, which is 64 bits of
evidence. A length alone is trusted only if it leads to the end of the file or to another valid
length.
"""

from __future__ import annotations

import os
from functools import cache
from typing import BinaryIO, Final

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from trainfeed.damage import DamageGap, SearchBudget
from trainfeed.paths import os_errors
from trainfeed.tfrecord._byte_files import read_at
from trainfeed.tfrecord._tfrecord_format import (
    CHECKSUM,
    HEADER,
    HEADER_BYTES,
    LENGTH,
    has_valid_header,
    masked,
    masked_array,
    unmasked,
)

__all__ = ["RecordResync"]

_AROUND_BYTES: Final = HEADER_BYTES + CHECKSUM.size
# Bytes that are read at once: few at first, because most damage is small.
_FIRST_WINDOW_BYTES: Final = 1 << 12
_WINDOW_BYTES: Final = 1 << 18


class RecordResync:
    """Searches one file without compression for whole records behind damaged places.

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
        """Return the start of the first whole record behind ``offset_bytes``; the end if none.

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

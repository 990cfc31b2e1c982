"""Finds where reading can go on behind a damaged record: by the checksums of length and data.

Files have no marks. What is taken for a record has both checksums right, 64 bits of evidence; a
length alone is believed where the end of the file or another right length is where it points to.
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
# What is read at once: little at first, for damage is mostly small.
_FIRST_WINDOW_BYTES: Final = 1 << 12
_WINDOW_BYTES: Final = 1 << 18


class RecordResync:
    """Looks behind damaged places of one file without compression.

    Args:
        file: A seekable binary file; its position is moved.
        path: What to call it in messages.
        origin_bytes: Where in it the records start; all other places are counted from there.
        max_record_bytes: A longer record is none to go on with.

    Attributes:
        end_bytes: Where the file ends.
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
            FormatError: The bytes are made so that the search would take too long.
        """
        header = self._read(offset_bytes, HEADER_BYTES)
        if len(header) < HEADER_BYTES:
            return DamageGap(self.end_bytes)
        stated, checksum = HEADER.unpack(header)
        # Either of the two may be what is damaged.
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
        """Return the first record behind ``offset_bytes`` that is whole; the end if there is none.

        Raises:
            FormatError: The bytes are made so that the search would take too long.
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
            # The last bytes again: a header may begin in this window and end in the next one.
            start += len(window) - HEADER_BYTES + 1
            num_bytes = min(4 * num_bytes, _WINDOW_BYTES)
        return self.end_bytes

    def _ends_record(self, offset_bytes: int, end_bytes: int) -> bool:
        """Return whether the data fit their checksum if the record ends there."""
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
        """Return whether the file ends there, or a right length follows."""
        at_end = offset_bytes == self.end_bytes
        return at_end or has_valid_header(self._read(offset_bytes, HEADER_BYTES))

    def _read(self, offset_bytes: int, num_bytes: int) -> bytes:
        return read_at(self._file, self._origin_bytes + offset_bytes, num_bytes, self._path)


def _headers(window: bytes, longest: int) -> list[tuple[int, int]]:
    """Return where lengths up to ``longest`` with right checksums are, and the lengths."""
    num_places = len(window) - HEADER_BYTES + 1
    lengths: NDArray[np.uint64] = np.ndarray((num_places,), "<u8", window, 0, (1,))
    stored: NDArray[np.uint32] = np.ndarray((num_places,), "<u4", window, LENGTH.size, (1,))
    # Few bytes are the start of a length that fits: only these are looked at closely.
    places = np.flatnonzero(lengths <= longest)
    found = lengths[places]
    right = _checksums_of(found) == stored[places]
    return list(zip(places[right].tolist(), found[right].tolist(), strict=True))


def _checksums_of(lengths: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Return the masked checksums of lengths, both of shape ``(n,)``."""
    tables = _tables()
    checksums = np.full(len(lengths), crc32c(bytes(LENGTH.size)), np.uint32)
    for number, octet in enumerate(lengths.astype("<u8").view(np.uint8).reshape(-1, 8).T):
        checksums ^= tables[number, octet]
    return masked_array(checksums)


@cache
def _tables() -> NDArray[np.uint32]:
    """Return by what each octet of a length changes the checksum of 0; shape ``(8, 256)``."""
    zero = crc32c(bytes(LENGTH.size))
    rows = [
        [crc32c(LENGTH.pack(octet << 8 * number)) ^ zero for octet in range(256)]
        for number in range(LENGTH.size)
    ]
    return np.array(rows, np.uint32)


def _length_of(checksum: int) -> int:
    """Return the one length below 2^32 that has a masked checksum."""
    steps, step_of = _steps()
    state = unmasked(checksum) ^ 0xFFFFFFFF
    # Backwards through 8 octets of 0; what is left is the length, over the initial ones.
    for _ in range(LENGTH.size):
        octet = step_of[state >> 24]
        state = (state ^ steps[octet]) << 8 & 0xFFFFFFFF | octet
    return state ^ 0xFFFFFFFF


@cache
def _steps() -> tuple[list[int], dict[int, int]]:
    """Return what each octet does to the state of the checksum, and which one by its highest."""
    steps = [crc32c(bytes([octet ^ 0xFF])) ^ 0xFF000000 for octet in range(256)]
    return steps, {step >> 24: octet for octet, step in enumerate(steps)}

"""Framing: records with their lengths, before compression."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from itertools import pairwise

from trainfeed.errors import FormatError
from trainfeed.recordio._recordio_format import LENGTH

__all__ = [
    "check_sizes",
    "iter_records",
    "record_bounds",
    "split_records",
]


def split_records(framing: memoryview, num_records: int) -> list[memoryview]:
    """Cut a framing into its records.

    Args:
        framing: The framing from ``iter_chunks`` or ``read_chunk``.
        num_records: Number of records in the chunk's header.

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
    """Return the start of each record with its length word, and the end of the last record.

    The result is an array, not a list of records: an empty record takes 4 bytes of framing, so a
    few kilobytes could decompress to gigabytes of Python objects.

    Raises:
        FormatError: ``num_records`` records do not end exactly where the framing ends.
    """
    check_sizes(num_records, len(framing))
    bounds = array("Q", [0])
    append, unpack, start = bounds.append, LENGTH.unpack_from, 0
    try:
        for _ in range(num_records):
            # unpack raises struct.error once ``start`` has passed the end of the framing.
            start += 4 + unpack(framing, start)[0]
            append(start)
    except struct.error:
        start = len(framing) + 1
    # ``start`` only grows, so this comparison finds every length that is too large, and also a
    # damaged record count, which no checksum covers.
    if start != len(framing):
        raise FormatError(
            f"expected {num_records} records in {len(framing)} bytes of framing, but they end"
            f" {'before' if start < len(framing) else 'after'} it does"
        )
    return bounds


def check_sizes(num_records: int, raw_bytes: int, max_raw_bytes: int | None = None) -> None:
    """Refuse a chunk that is too large, or too small for its records.

    Raises:
        FormatError: The chunk is too large, or too small for its records.
    """
    if max_raw_bytes is not None and raw_bytes > max_raw_bytes:
        raise FormatError(
            f"expected at most {max_raw_bytes} bytes in a chunk, it announces {raw_bytes}; raise"
            " max_raw_bytes if the file can be trusted"
        )
    if num_records * LENGTH.size > raw_bytes:
        raise FormatError(f"{num_records} records cannot be in {raw_bytes} bytes of framing")

"""Consecutive records in a block of bytes, read and verified together.

This takes a fraction of the time of reading them one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from trainfeed.errors import ChecksumError
from trainfeed.tfrecord._tfrecord_format import CHECKSUM, HEADER_BYTES, LENGTH, masked_array

__all__ = ["RecordRun", "next_run"]


class RecordRun:
    """Records up to the first damaged one.

    Args:
        records: Records of a block.
        stored: The stored checksum of each record.
        num_bytes: The bytes that each record takes in the block.

    Attributes:
        records: The records before the first damaged one.
        num_bytes: The bytes that these records take in the block.
        damage: The error of the next record; None if no record is damaged.
    """

    def __init__(self, records: list[bytes], stored: list[int], num_bytes: Sequence[int]) -> None:
        self.damage: ChecksumError | None = None
        computed = _checksums(records)
        if computed != stored:
            first = [a == b for a, b in zip(computed, stored, strict=True)].index(False)
            self.damage = ChecksumError(
                f"expected masked CRC-32C {stored[first]:#010x}, got {computed[first]:#010x}"
            )
            del records[first:]
        self.records = records
        self.num_bytes = sum(num_bytes[: len(records)])


def next_run(block: bytes, start: int, stride: int, max_record_bytes: int) -> RecordRun:
    """Read records from ``start`` on, at least one.

    Args:
        block: Bytes of a file.
        start: Place of a whole record, whose header was verified.
        stride: Bytes that this record takes in the block.
        max_record_bytes: A longer record ends the run.
    """
    num_equal = _num_equal_headers(block, start, stride)
    if num_equal > 1:
        return _equal_run(block, start, stride, num_equal)
    return _mixed_run(block, start, max_record_bytes)


def _equal_run(block: bytes, start: int, stride: int, num_records: int) -> RecordRun:
    first, last = start + HEADER_BYTES, start + num_records * stride
    length = stride - HEADER_BYTES - CHECKSUM.size
    records = [block[i : i + length] for i in range(first, last, stride)]
    # One row per record; the last four columns are the checksums of the data.
    rows = np.frombuffer(block, np.uint8, num_records * stride, start)
    stored = np.ascontiguousarray(rows.reshape(num_records, stride)[:, -CHECKSUM.size :])
    return RecordRun(records, stored.view("<u4").ravel().tolist(), [stride] * num_records)


def _mixed_run(block: bytes, start: int, max_record_bytes: int) -> RecordRun:
    """Follow the lengths first, then verify their checksums; a wrong one ends the run."""
    starts, ends = _bounds(block, start, max_record_bytes)
    headers = [block[i : i + LENGTH.size] for i in starts]
    stored = [CHECKSUM.unpack_from(block, i + LENGTH.size)[0] for i in starts]
    computed = _checksums(headers)
    if computed != stored:
        num_good = [a == b for a, b in zip(computed, stored, strict=True)].index(False)
        del starts[num_good:], ends[num_good:]
    pairs = list(zip(starts, ends, strict=True))
    return RecordRun(
        [block[i + HEADER_BYTES : j - CHECKSUM.size] for i, j in pairs],
        [CHECKSUM.unpack_from(block, j - CHECKSUM.size)[0] for j in ends],
        [j - i for i, j in pairs],
    )


def _bounds(block: bytes, start: int, max_record_bytes: int) -> tuple[list[int], list[int]]:
    """Return starts and ends of the records in the block, by their unverified lengths."""
    starts, ends, unpack = [], [], LENGTH.unpack_from
    last_start, num_bytes = len(block) - HEADER_BYTES - CHECKSUM.size, len(block)
    while start <= last_start:
        length = unpack(block, start)[0]
        end = start + HEADER_BYTES + length + CHECKSUM.size
        if end > num_bytes or length > max_record_bytes:
            break
        starts.append(start)
        ends.append(end)
        start = end
    return starts, ends


def _checksums(pieces: list[bytes]) -> list[int]:
    checksums: list[int] = masked_array(list(map(crc32c, pieces))).tolist()
    return checksums


def _num_equal_headers(block: bytes, start: int, stride: int) -> int:
    """Return how many whole records from ``start`` on have the same header as the first."""
    header, second = block[start : start + HEADER_BYTES], start + stride
    num_whole = (len(block) - start) // stride
    if num_whole < 2 or block[second : second + HEADER_BYTES] != header:
        return 1
    rows: NDArray[np.uint8] = np.frombuffer(block, np.uint8, num_whole * stride, start)
    expected = np.frombuffer(header, np.uint8)
    differs = (rows.reshape(num_whole, stride)[:, :HEADER_BYTES] != expected).any(axis=1)
    # argmax is the first row that differs; 0 if none does, because row 0 equals itself.
    return int(differs.argmax()) or num_whole

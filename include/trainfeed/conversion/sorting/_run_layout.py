"""The layout of a sorted run, in which the samples of any range of buckets are contiguous.

All integers are little-endian::

    run     := head keys lengths? payload
    head    := magic num_samples record_bytes payload_bytes ends payload_ends digests check
    ends, payload_ends, digests := uint64 for each of the 1024 buckets

The bucket of a sample is the upper 10 bits of its key. ``ends`` and ``payload_ends`` count samples
and bytes of payload up to the end of each bucket. ``record_bytes`` is the length of every record,
or 2^64 - 1 if lengths differ; only then there are ``lengths`` (uint32). ``digests`` are the
XXH3-64 of each bucket's keys, lengths and payload; ``check`` is the XXH3-64 of the head before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import xxhash
from numpy.typing import NDArray

from trainfeed.dataset.identity import Uint64s
from trainfeed.errors import BadMagicError, ChecksumError, FormatError

__all__ = [
    "FIXED_BYTES",
    "HEAD_BYTES",
    "KEY_SHIFT",
    "NUM_BUCKETS",
    "TABLE_BYTES",
    "BucketRun",
    "LoadedBuckets",
    "Records",
    "Slice",
    "SortedRun",
    "dump_head",
    "parse_head",
    "verify_buckets",
]

# Records of one length as an array (n,) of any plain dtype, or a sequence of any records.
Records: TypeAlias = "NDArray[Any] | Sequence[bytes]"

NUM_BUCKETS: Final = 1024
KEY_SHIFT: Final = 54
_MAGIC: Final = b"tfspill1"
_FIXED: Final = Struct("<8s3Q")
FIXED_BYTES: Final = _FIXED.size
TABLE_BYTES: Final = 8 * NUM_BUCKETS
HEAD_BYTES: Final = FIXED_BYTES + 3 * TABLE_BYTES + 8
_VARIABLE: Final = (1 << 64) - 1


class BucketRun(NamedTuple):
    """Place and size of a run in a file; ``record_bytes`` is None if the lengths differ."""

    offset_bytes: int
    num_samples: int
    record_bytes: int | None
    payload_bytes: int

    @property
    def keys_at(self) -> int:
        """Offset of the keys in the file."""
        return self.offset_bytes + HEAD_BYTES

    @property
    def lengths_at(self) -> int:
        """Offset of the lengths, if the run has any."""
        return self.keys_at + 8 * self.num_samples

    @property
    def payload_at(self) -> int:
        """Offset of the payload."""
        return self.lengths_at + (4 * self.num_samples if self.record_bytes is None else 0)

    @property
    def end_bytes(self) -> int:
        """Offset of the next run."""
        return self.payload_at + self.payload_bytes


class Slice(NamedTuple):
    """The buckets ``[first, last)`` of one run: their rows and their bytes of payload."""

    run: BucketRun
    first: int
    last: int
    start: int
    stop: int
    payload_start: int
    payload_stop: int

    @property
    def pieces(self) -> list[tuple[int, int]]:
        """Offset and size of the keys, of the lengths if there are any, and of the payload."""
        run, num_rows = self.run, self.stop - self.start
        pieces = [(run.keys_at + 8 * self.start, 8 * num_rows)]
        if run.record_bytes is None:
            pieces.append((run.lengths_at + 4 * self.start, 4 * num_rows))
        num_bytes = self.payload_stop - self.payload_start
        return [*pieces, (run.payload_at + self.payload_start, num_bytes)]


class LoadedBuckets(NamedTuple):
    """Samples of some buckets, not sorted across runs.

    Attributes:
        keys: Keys, shape ``(n,)``.
        lengths: Bytes of each record, shape ``(n,)``.
        payload: The joined records, uint8.
    """

    keys: Uint64s
    lengths: NDArray[np.uint32]
    payload: NDArray[np.uint8]

    @property
    def record_bytes(self) -> int | None:
        """Bytes of every record; None if lengths differ or there are no records."""
        return _common_length(self.lengths)

    @property
    def starts(self) -> NDArray[np.int64]:
        """Offset of each record in the payload, and the end of the last one, shape ``(n + 1,)``."""
        return _starts(self.lengths)


class SortedRun:
    """The samples of a run in the order of their keys, before they are written.

    Args:
        keys: Keys of the records.
        records: The records, as many as keys.
        offset_bytes: Offset of the run in the file.

    Attributes:
        run: Place and size of the run.
        keys: Keys, ascending.
        lengths: Lengths of the records in this order; None if all are equal.
        ends: Number of rows up to the end of each bucket.
        payload_ends: Bytes of payload up to the end of each bucket.
    """

    def __init__(self, keys: Uint64s, records: Records, offset_bytes: int) -> None:
        self._order = np.argsort(keys)
        self._records = records
        self.keys = keys[self._order]
        lengths = self._sorted_lengths()
        record_bytes = _record_bytes(records, lengths)
        self.lengths = lengths if record_bytes is None else None
        bounds = np.arange(1, NUM_BUCKETS, dtype=np.uint64) << np.uint64(KEY_SHIFT)
        self.ends = np.append(np.searchsorted(self.keys, bounds), len(keys)).astype(np.int64)
        if self.lengths is not None:
            self.payload_ends = _starts(self.lengths)[self.ends]
        else:
            self.payload_ends = self.ends * (record_bytes or 0)
        payload_bytes = int(self.payload_ends[-1])
        self.run = BucketRun(offset_bytes, len(keys), record_bytes, payload_bytes)

    def payload(self, first: int, last: int) -> NDArray[np.uint8]:
        """Return the joined records of the buckets ``[first, last)``, in order."""
        chosen = self._order[_bounds(self.ends, first, last)]
        if isinstance(self._records, np.ndarray):
            return self._records.take(chosen).view(np.uint8)
        data = b"".join(map(self._records.__getitem__, chosen.tolist()))
        return np.frombuffer(data, np.uint8)

    def digests(self, first: int, last: int, payload: NDArray[np.uint8]) -> list[int]:
        """Return the digests of the buckets ``[first, last)``, given their payload."""
        start = int(self.payload_ends[first - 1]) if first else 0
        found = []
        for bucket in range(first, last):
            rows = _bounds(self.ends, bucket, bucket + 1)
            place = _bounds(self.payload_ends, bucket, bucket + 1)
            lengths = None if self.lengths is None else self.lengths[rows]
            data = payload[place.start - start : place.stop - start]
            found.append(_digest(self.keys[rows], lengths, data))
        return found

    def _sorted_lengths(self) -> NDArray[np.uint32] | None:
        if isinstance(self._records, np.ndarray):
            return None
        lengths = np.fromiter(map(len, self._records), np.uint32, len(self._records))
        return lengths[self._order]


def dump_head(
    run: BucketRun, ends: NDArray[Any], payload_ends: NDArray[Any], digests: Sequence[int]
) -> bytes:
    """Return the head of a run."""
    size = _VARIABLE if run.record_bytes is None else run.record_bytes
    tables = [np.asarray(table).astype("<u8").tobytes() for table in (ends, payload_ends)]
    checks = np.array(digests, "<u8").tobytes()
    fixed = _FIXED.pack(_MAGIC, run.num_samples, size, run.payload_bytes)
    head = b"".join([fixed, *tables, checks])
    return head + xxhash.xxh3_64_intdigest(head).to_bytes(8, "little")


def parse_head(head: bytes, offset_bytes: int) -> tuple[BucketRun, NDArray[np.int64]]:
    """Return a run, and its ``ends`` and ``payload_ends``, shape ``(2, 1024)``.

    Raises:
        BadMagicError: The bytes are not the head of a run.
        ChecksumError: The head is damaged.
        FormatError: Numbers of the head contradict each other.
    """
    magic, num_samples, size, payload_bytes = _FIXED.unpack_from(head)
    if magic != _MAGIC:
        raise BadMagicError(f"expected a run of samples, got {magic!r}", offset_bytes=offset_bytes)
    if xxhash.xxh3_64_intdigest(head[:-8]) != int.from_bytes(head[-8:], "little"):
        raise ChecksumError("the head of a run is damaged", offset_bytes=offset_bytes)
    run = BucketRun(offset_bytes, num_samples, None if size == _VARIABLE else size, payload_bytes)
    tables = np.frombuffer(head, "<u8", 2 * NUM_BUCKETS, FIXED_BYTES).reshape(2, NUM_BUCKETS)
    totals = [num_samples, payload_bytes]
    if tables[:, -1].tolist() != totals or (tables[:, 1:] < tables[:, :-1]).any():
        raise FormatError("the head of a run contradicts itself", offset_bytes=offset_bytes)
    return run, tables.astype(np.int64)


def verify_buckets(
    part: Slice, loaded: LoadedBuckets, tables: Sequence[NDArray[np.uint64]]
) -> None:
    """Compare loaded samples with the digests of their buckets.

    Args:
        part: The buckets.
        loaded: The loaded samples.
        tables: ``ends``, ``payload_ends`` and ``digests`` of the buckets of ``part``.

    Raises:
        ChecksumError: A bucket is damaged.
    """
    ends, payload_ends, expected = (table.tolist() for table in tables)
    row, byte = part.start, part.payload_start
    for i, digest in enumerate(expected):
        rows = slice(row - part.start, ends[i] - part.start)
        data = slice(byte - part.payload_start, payload_ends[i] - part.payload_start)
        lengths = loaded.lengths[rows] if part.run.record_bytes is None else None
        if _digest(loaded.keys[rows], lengths, loaded.payload[data]) != digest:
            raise ChecksumError(
                f"bucket {part.first + i} of a run is damaged", offset_bytes=part.run.offset_bytes
            )
        row, byte = ends[i], payload_ends[i]


def _bounds(ends: NDArray[np.int64], first: int, last: int) -> slice:
    return slice(int(ends[first - 1]) if first else 0, int(ends[last - 1]))


def _digest(keys: Uint64s, lengths: NDArray[np.uint32] | None, payload: NDArray[np.uint8]) -> int:
    state = xxhash.xxh3_64()
    state.update(keys.data)
    if lengths is not None:
        state.update(lengths.data)
    state.update(payload.data)
    return state.intdigest()


def _record_bytes(records: Records, lengths: NDArray[np.uint32] | None) -> int | None:
    if isinstance(records, np.ndarray):
        return int(records.itemsize)
    if lengths is None or not len(lengths):
        return 0
    return _common_length(lengths)


def _common_length(lengths: NDArray[np.uint32]) -> int | None:
    same = len(lengths) > 0 and bool((lengths == lengths[0]).all())
    return int(lengths[0]) if same else None


def _starts(lengths: NDArray[np.uint32]) -> NDArray[np.int64]:
    return np.append(0, np.cumsum(lengths, dtype=np.int64))

"""The external sort of a conversion: runs are collected, and read by ascending key in parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainfeed.conversion.record_files import ConvertOptions
from trainfeed.conversion.spill import KEY_SHIFT, NUM_BUCKETS, LoadedBuckets, Spill
from trainfeed.core import faults
from trainfeed.versions.order import Uint64s, position_hash, source_hash

# --- Collects records and writes them to disk as sorted runs

# Memory of a record besides its bytes: as an object in a list, or as a row with its key.
_OBJECT_BYTES: Final = 64
_ROW_BYTES: Final = 40
_SOURCE: Final = source_hash("convert")


class RunBuilder:
    """Collects records and spills them, one run at a time.

    Args:
        spill: File for the runs.
        seed: Seed of the shuffle.
        start: Ordinal of the first record.
        options: Memory and progress function.
    """

    def __init__(self, spill: Spill, seed: int, start: int, options: ConvertOptions) -> None:
        self._spill = spill
        self._seed = seed
        self._next = start
        self._options = options
        self._records: list[bytes] = []
        self._rows: NDArray[Any] = np.empty(0, "V1")
        self._num_rows = 0
        self._weight = 0

    def add(self, record: bytes) -> None:
        """Add a record."""
        # Rows and single records are never mixed in a run: records of one size need no lengths.
        if self._num_rows:
            self.flush()
        self._records.append(record)
        self._weight += len(record) + _OBJECT_BYTES
        if self._weight >= self._options.memory_bytes:
            self.flush()

    def add_array(self, records: NDArray[Any]) -> None:
        """Add records of one size, shape ``(n,)``; they are copied."""
        records = records.view(f"V{records.itemsize}")
        if self._records:
            self.flush()
        if self._rows.dtype != records.dtype:
            self.flush()
            # Allocated once for all runs: the memory limit divided by the cost of a row.
            room = self._options.memory_bytes // (records.itemsize + _ROW_BYTES)
            self._rows = np.empty(max(1, room), records.dtype)
        while len(records):
            taken = records[: len(self._rows) - self._num_rows]
            self._rows[self._num_rows : self._num_rows + len(taken)] = taken
            self._num_rows += len(taken)
            records = records[len(taken) :]
            if self._num_rows == len(self._rows):
                self.flush()

    def add_all(self, records: NDArray[Any] | Iterable[bytes]) -> None:
        """Add records: an array of records of one size, or any records one by one."""
        if isinstance(records, np.ndarray):
            self.add_array(records)
            return
        for record in records:
            self.add(record)

    def flush(self) -> None:
        """Write the collected records as a run: rows or single records, never both at a time."""
        rows = self._rows[: self._num_rows]
        for records in (rows, self._records):
            if len(records):
                # Keys depend on the number of a sample in the whole input, so any division into
                # runs gives the same order.
                stop = self._next + len(records)
                ordinals = np.arange(self._next, stop, dtype=np.uint64)
                self._spill.append(sort_keys(self._seed, ordinals), records)
                self._next = stop
                faults.point("convert.after_run")
        self._records, self._num_rows, self._weight = [], 0, 0
        if self._options.on_progress is not None:
            self._options.on_progress(self._next, 0)


def sort_keys(seed: int, ordinals: NDArray[Any]) -> Uint64s:
    """Return the keys of samples, uint64 of shape ``(n,)``; no two samples of a set share one.

    Args:
        seed: Any integer; taken modulo 2^64.
        ordinals: Numbers of the samples in the input, from 0, shape ``(n,)``.
    """
    return position_hash(seed, _SOURCE, ordinals)


# --- Reads the samples of spill files by ascending key, in parts that fit into memory

# Memory of a sample besides its record: key, length, start, place in the order.
_SAMPLE_BYTES = 32


class SortedSamples:
    """Samples in order, in memory.

    Args:
        loaded: The samples in any order.
    """

    def __init__(self, loaded: LoadedBuckets) -> None:
        self._order = np.argsort(loaded.keys)
        self._loaded = loaded
        self._payload = loaded.payload
        self._record_bytes = loaded.record_bytes
        self._starts: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self._order)

    def num_rows_of(self, num_bytes: int) -> int:
        """Return how many rows take about ``num_bytes``, at least 1."""
        return max(1, num_bytes * len(self) // (len(self._payload) + _SAMPLE_BYTES * len(self)))

    def rows(self, start: int, stop: int) -> NDArray[Any] | list[bytes]:
        """Return the records ``[start, stop)``: an array of ``V<size>`` if all have one size."""
        chosen = self._order[start:stop]
        if self._record_bytes:
            rows: NDArray[Any] = self._payload.view(f"V{self._record_bytes}").take(chosen)
            return rows
        if self._starts is None:
            self._starts = self._loaded.starts
        view = self._payload.data
        starts = self._starts[chosen].tolist()
        lengths = self._loaded.lengths[chosen].tolist()
        return [bytes(view[at : at + length]) for at, length in zip(starts, lengths, strict=True)]


# Samples with the start and stop of the range to use.
SortedParts: TypeAlias = Iterator[tuple[SortedSamples, int, int]]


def num_samples_of(spills: Sequence[Spill]) -> int:
    """Return the number of samples in spills."""
    return sum(int(spill.num_samples.sum()) for spill in spills)


def iter_sorted(
    spills: Sequence[Spill], start: int, stop: int, *, memory_bytes: int, consume: bool = False
) -> SortedParts:
    """Yield the samples of rank ``[start, stop)``.

    Args:
        spills: All spills of a conversion; the distribution of samples to them has no influence.
        start: Rank of the first sample.
        stop: Rank after the last sample.
        memory_bytes: Approximate memory for samples; a single record may take more.
        consume: Whether the disk space of samples is freed as soon as they are in memory; the
            spills cannot be used afterwards.

    Yields:
        Samples, and the start and stop of the range to use; valid until the next ones are
        requested.

    Raises:
        FormatError: A spill file is damaged.
    """
    counts = np.sum([spill.num_samples for spill in spills], axis=0)
    # ``ranks[b]`` is the rank of the first sample of bucket b in the whole order.
    ranks = np.append(0, np.cumsum(counts))
    memory = _SortMemory()
    for part in _parts(spills, memory_bytes):
        low, high = int(ranks[part.first]), int(ranks[part.last])
        if high <= start or low >= stop or low == high:
            continue
        for loaded in _load(spills, part, memory, consume=consume):
            samples, low = SortedSamples(loaded), low + len(loaded.keys)
            # ``before`` is the rank of the first sample in memory.
            before = low - len(samples)
            wanted = max(start - before, 0), min(stop - before, len(samples))
            if wanted[0] < wanted[1]:
                yield samples, *wanted


class _KeyRange(NamedTuple):
    """Buckets that are loaded together, or a single bucket that needs several loads."""

    first: int
    last: int
    num_loads: int


class _SortMemory:
    """Memory that is used again: new pages cost about as much as filling them."""

    def __init__(self) -> None:
        self._whole = _allocate(0, 0)

    def take(self, num_samples: int, payload_bytes: int) -> LoadedBuckets:
        """Return memory for samples; the samples of the call before are overwritten."""
        keys, lengths, payload = self._whole
        if len(keys) < num_samples or len(payload) < payload_bytes:
            most = max(len(keys), num_samples), max(len(payload), payload_bytes)
            # The old memory is freed first: there is no room for both.
            del keys, lengths, payload
            self._whole = _allocate(0, 0)
            self._whole = _allocate(*most)
        keys, lengths, payload = self._whole
        return LoadedBuckets(keys[:num_samples], lengths[:num_samples], payload[:payload_bytes])


def _parts(spills: Sequence[Spill], memory_bytes: int) -> Iterator[_KeyRange]:
    payload = np.sum([spill.payload_bytes for spill in spills], axis=0)
    counts = np.sum([spill.num_samples for spill in spills], axis=0)
    # Neighbouring buckets are joined to parts as large as the memory allows.
    weights = (payload + _SAMPLE_BYTES * counts).tolist()
    first, total = 0, 0
    for bucket, weight in enumerate(weights):
        if bucket > first and total + weight > memory_bytes:
            yield _part(first, bucket, total, memory_bytes)
            first, total = bucket, 0
        total += weight
    yield _part(first, NUM_BUCKETS, total, memory_bytes)


def _part(first: int, last: int, weight: int, memory_bytes: int) -> _KeyRange:
    # Only a single bucket can be larger than the memory. It is loaded in parts of half the memory,
    # because loading a part copies it.
    num_loads = 1 if weight <= memory_bytes else -(-2 * weight // memory_bytes)
    return _KeyRange(first, last, num_loads)


def _load(
    spills: Sequence[Spill], part: _KeyRange, memory: _SortMemory, *, consume: bool
) -> Iterator[LoadedBuckets]:
    if part.num_loads == 1:
        yield _load_whole(spills, part, memory, consume=consume)
        return
    low = part.first << KEY_SHIFT
    for i in range(part.num_loads):
        # The keys of a bucket share their upper bits; its range of 2^KEY_SHIFT keys is divided
        # evenly. Keys are hashes, so the parts have about equal sizes.
        bounds = [low + (i + j) * (1 << KEY_SHIFT) // part.num_loads for j in (0, 1)]
        # Every load reads the whole bucket, and keeps the keys in its range.
        loaded = _load_between(spills, part, bounds[0], bounds[1] - 1)
        if consume and i == part.num_loads - 1:
            _discard(spills, part)
        yield loaded


def _discard(spills: Sequence[Spill], part: _KeyRange) -> None:
    for spill in spills:
        for each in spill.slices(part.first, part.last):
            spill.discard(each)


def _load_whole(
    spills: Sequence[Spill], part: _KeyRange, memory: _SortMemory, *, consume: bool
) -> LoadedBuckets:
    found = [(spill, each) for spill in spills for each in spill.slices(part.first, part.last)]
    loaded = memory.take(
        sum(each.stop - each.start for _, each in found),
        sum(each.payload_stop - each.payload_start for _, each in found),
    )
    row = byte = 0
    for spill, each in found:
        rows = slice(row, row + each.stop - each.start)
        data = slice(byte, byte + each.payload_stop - each.payload_start)
        out = LoadedBuckets(loaded.keys[rows], loaded.lengths[rows], loaded.payload[data])
        spill.load(each, out)
        if consume:
            spill.discard(each)
        row, byte = rows.stop, data.stop
    return loaded


def _load_between(spills: Sequence[Spill], part: _KeyRange, low: int, high: int) -> LoadedBuckets:
    """Load the samples of one bucket with keys in ``[low, high]``, run by run."""
    pieces = [_allocate(0, 0)]
    for spill in spills:
        for each in spill.slices(part.first, part.last):
            size = each.payload_stop - each.payload_start
            loaded = _allocate(each.stop - each.start, size)
            spill.load(each, loaded)
            pieces.append(_between(loaded, low, high))
    return LoadedBuckets(*(np.concatenate(arrays) for arrays in zip(*pieces, strict=True)))


def _between(loaded: LoadedBuckets, low: int, high: int) -> LoadedBuckets:
    start = int(np.searchsorted(loaded.keys, np.uint64(low), side="left"))
    stop = int(np.searchsorted(loaded.keys, np.uint64(high), side="right"))
    starts = loaded.starts
    # Keys of a run are sorted, so a range of keys is contiguous in keys, lengths and payload.
    payload = loaded.payload[starts[start] : starts[stop]]
    return LoadedBuckets(
        loaded.keys[start:stop].copy(), loaded.lengths[start:stop].copy(), payload.copy()
    )


def _allocate(num_samples: int, payload_bytes: int) -> LoadedBuckets:
    keys: Uint64s = np.empty(num_samples, np.uint64)
    return LoadedBuckets(keys, np.empty(num_samples, np.uint32), np.empty(payload_bytes, np.uint8))

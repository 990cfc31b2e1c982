"""Reads the samples of spill files by ascending key, in parts that fit into memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainfeed.conversion.sorting._run_layout import KEY_SHIFT, NUM_BUCKETS, LoadedBuckets
from trainfeed.conversion.sorting._sample_spill import Spill
from trainfeed.dataset.identity import Uint64s

__all__ = ["SortedParts", "SortedSamples", "iter_sorted", "num_samples_of"]

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
        stop: Rank behind the last sample.
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
    payload = loaded.payload[starts[start] : starts[stop]]
    return LoadedBuckets(
        loaded.keys[start:stop].copy(), loaded.lengths[start:stop].copy(), payload.copy()
    )


def _allocate(num_samples: int, payload_bytes: int) -> LoadedBuckets:
    keys: Uint64s = np.empty(num_samples, np.uint64)
    return LoadedBuckets(keys, np.empty(num_samples, np.uint32), np.empty(payload_bytes, np.uint8))

"""The order of an epoch, a pure function of seed and position, and the part of a rank."""

from __future__ import annotations

import hashlib
import heapq
import math
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import takewhile
from operator import attrgetter
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainfeed.core.whole_numbers import rank_of
from trainfeed.errors import ConfigError

# --- Permutations that depend on a key alone

_WORD: Final = np.uint64
_STRUCT: Final = np.dtype("<u8")
# With fewer words the steps before the sort cost more than they save; with more, too many words
# share their highest 16 bits.
_RADIX_WORDS: Final = range(1 << 10, 1 << 15)


class _Generators(threading.local):
    """One generator per thread: a new generator asks the system for entropy, which is slow."""

    def __init__(self) -> None:
        self._generator = np.random.Philox(key=0)
        self._start: Any = self._generator.state

    def words(self, key: NDArray[np.uint64], num_words: int) -> NDArray[np.uint64]:
        """Return the first words of the key's stream."""
        state = {"counter": np.zeros(4, _WORD), "key": key}
        self._generator.state = self._start | {"state": state}
        return self._generator.random_raw(num_words)


_GENERATORS: Final = _Generators()


def permutation(num_items: int, *key: str | int) -> NDArray[np.int64]:
    """Return a permutation of ``range(num_items)``, shape ``(num_items,)``.

    Args:
        num_items: Number of items; below 2^40.
        key: The parts of the key. Texts contain no ``/``.
    """
    if num_items < 2:
        return np.zeros(num_items, np.int64)
    digest = hashlib.sha256("/".join(map(str, key)).encode()).digest()
    words = _GENERATORS.words(np.frombuffer(digest, _STRUCT, 2).astype(_WORD), num_items)
    # The low bits of each random word are replaced by the number of the item. Then no two words
    # are equal, and a sort of the words, which is much faster than an argsort, permutes the
    # numbers.
    low = _WORD((1 << (num_items - 1).bit_length()) - 1)
    words &= ~low
    words |= np.arange(num_items, dtype=_WORD)
    words = _sorted(words)
    words &= low
    return words.astype(np.int64)


def _sorted(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return random words, of which no two are equal, in ascending order."""
    if len(words) in _RADIX_WORDS:
        # numpy sorts 16 bits by radix. Few words share their highest 16 bits, and a sort by merging
        # hardly has to move anything after that.
        highest = (words >> _WORD(48)).astype(np.uint16)
        words = words[np.argsort(highest, kind="stable")]
        words.sort(kind="stable")
    else:
        words.sort()
    return words


# --- The request to load a window: all its samples, or every n-th of them


class Task(NamedTuple):
    """A window to load.

    Attributes:
        child: Number of the set within a mixture, 0 otherwise.
        epoch: Number of the epoch.
        lane: Number of the lane.
        window: Number of the window in the lane.
        first: Number in the window of the first sample to load.
        stride: Distance between the samples to load; 1 loads all of them.
        need: The position at which the first sample is needed.
    """

    child: int
    epoch: int
    lane: int
    window: int
    first: int
    stride: int
    need: int


# --- The order of an epoch: a pure function of (content digest, seed, epoch, position)

# Bytes of all open windows together: large enough to mix the samples of several chunks in every
# lane, small enough for a rank that reads all lanes. Twice the size of a large L3 cache.
DEFAULT_WINDOW_BYTES: Final = 64 << 20

_MIN_LANES: Final = 16
_MIN_CHUNKS: Final = 2
# The first window of a lane takes 1/8 of its budget, or a chunk, so that the first batch, which
# needs a window of every lane, comes early.
_FIRST_SHARE: Final = 8


def lanes_for(world_size: int) -> int:
    """Return the number of lanes for a set that is first read by ``world_size`` ranks.

    The number is the smallest multiple of ``world_size`` that is at least 16. Every rank has lanes
    of its own, and often still has them after the number of ranks was changed.
    """
    return world_size * -(-_MIN_LANES // world_size)


class Span(NamedTuple):
    """Samples ``[start, stop)`` of chunk number ``chunk``."""

    chunk: int
    start: int
    stop: int


class WindowPlan(NamedTuple):
    """A window of a lane.

    Attributes:
        first: Index in the lane of the window's first sample.
        num_samples: Number of samples that the window yields.
        spans: The samples to read, in the order of the chunks in the lane.
        permutation: For each place in the window the number of its sample in the spans, shape
            ``(num_samples,)``; None for the order of the spans.
    """

    first: int
    num_samples: int
    spans: list[Span]
    permutation: NDArray[np.int64] | None


@dataclass(frozen=True, eq=False)
class Order:
    """The order of all epochs of one set.

    Attributes:
        num_samples: Samples per chunk, shape ``(num_chunks,)``, int64.
        num_bytes: Bytes per chunk before compression, shape ``(num_chunks,)``, int64.
        digest: Identifies the content.
        seed: Number that the order depends on, besides content, lanes and window bytes.
        lanes: Number of lanes that an epoch is cut into. The natural order has 1, and ``shuffle``
            False.
        window_bytes: Bytes of one window of every lane together.
        shuffle: Whether chunks, and samples in windows, are permuted.
    """

    num_samples: NDArray[np.int64]
    num_bytes: NDArray[np.int64]
    digest: str
    seed: int
    lanes: int
    window_bytes: int
    shuffle: bool

    def __post_init__(self) -> None:
        if self.lanes < 1 or self.window_bytes < 1:
            raise ConfigError(
                f"expected at least 1 lane and 1 byte of window, got {self.lanes} and"
                f" {self.window_bytes}"
            )

    @cached_property
    def total(self) -> int:
        """Number of samples in an epoch."""
        return int(self.num_samples.sum())

    @cached_property
    def max_window_bytes(self) -> int:
        """Upper limit for the bytes of chunks that a window of any epoch reads."""
        largest = int(self.num_bytes.max(initial=0))
        most = max(self.window_bytes // self.lanes, largest * (_MIN_CHUNKS if self.shuffle else 1))
        return min(most, int(self.num_bytes.sum()))

    def epoch(self, epoch: int) -> EpochOrder:
        """Return the order of one epoch; the orders of the last two epochs are kept."""
        return self._epochs(epoch)

    def __getstate__(self) -> dict[str, object]:
        """Return the arguments only: every process computes the rest for itself."""
        return {name: value for name, value in self.__dict__.items() if name in self._own}

    @cached_property
    def _epochs(self) -> Callable[[int], EpochOrder]:
        # Cursors and read-ahead ask for the same epochs again and again; two are open at a time.
        return lru_cache(maxsize=2)(lambda epoch: EpochOrder(self, epoch))

    @property
    def _own(self) -> set[str]:
        return {field.name for field in fields(self)}


class EpochOrder:
    """The order of one epoch.

    Args:
        order: The order of all epochs of the set.
        epoch: Number of the epoch, from 0.
    """

    def __init__(self, order: Order, epoch: int) -> None:
        self._order = order
        self.epoch = epoch
        self.lanes = order.lanes
        self.total = order.total
        self._lane_size, self._num_longer = divmod(self.total, self.lanes)
        self._key = (order.digest, order.seed, epoch)
        num_chunks = len(order.num_samples)
        self._chunks = (
            permutation(num_chunks, *self._key, "chunks")
            if order.shuffle
            else np.arange(num_chunks, dtype=np.int64)
        )
        # Sums over the chunks before each chunk, in permuted order, of samples and of bytes; the
        # last entry is the total, so both have one entry more than there are chunks.
        self._samples_before = _before(order.num_samples[self._chunks])
        self._bytes_before = _before(order.num_bytes[self._chunks])
        self._cuts: dict[int, list[int]] = {}

    def lane_start(self, lane: int) -> int:
        """Return the first place of a lane in the row of samples; sizes differ by at most 1."""
        return lane * self._lane_size + min(lane, self._num_longer)

    def lane_samples(self, lane: int) -> int:
        """Return how many samples a lane has."""
        return self.lane_start(lane + 1) - self.lane_start(lane)

    def window_of(self, lane: int, index: int) -> int:
        """Return the number of the window that yields sample ``index`` of a lane."""
        cuts = self._window_cuts(lane)
        return bisect_right(cuts, index + self.lane_start(lane)) - 1

    def window_range(self, lane: int, window: int) -> tuple[int, int]:
        """Return the indices in the lane that a window yields, as a half-open range."""
        cuts, start = self._window_cuts(lane), self.lane_start(lane)
        return cuts[window] - start, cuts[window + 1] - start

    def window(self, lane: int, window: int) -> WindowPlan:
        """Return the plan of a window: its spans and its permutation."""
        cuts = self._window_cuts(lane)
        start, stop = cuts[window], cuts[window + 1]
        places = (
            permutation(stop - start, *self._key, "window", lane, window)
            if self._order.shuffle
            else None
        )
        spans = self.spans(lane, window)
        return WindowPlan(start - self.lane_start(lane), stop - start, spans, places)

    def spans(self, lane: int, window: int) -> list[Span]:
        """Return the samples of a window as spans of chunks, in the order of the lane."""
        cuts = self._window_cuts(lane)
        return list(self._spans(cuts[window], cuts[window + 1]))

    def samples(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the ordinals in the whole set of the samples at positions, shape ``(n,)``."""
        ordinals = np.empty(len(positions), np.int64)
        lanes, indices = positions % self.lanes, positions // self.lanes
        first_ordinals = _before(self._order.num_samples)[self._chunks]
        for lane in np.unique(lanes):
            own = np.flatnonzero(lanes == lane)
            row = self._places(int(lane), indices[own])
            chunk = np.searchsorted(self._samples_before, row, side="right") - 1
            ordinals[own] = first_ordinals[chunk] + row - self._samples_before[chunk]
        return ordinals

    def chunks_from(
        self, lane: int, index: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return the chunks of a lane, from the window that yields a sample on.

        Args:
            lane: Number of the lane.
            index: Index in the lane of a sample.

        Returns:
            Chunks, and the half-open range of indices that the window of each yields; shape
            ``(n,)`` each.
        """
        cuts, first = np.array(self._window_cuts(lane)), self.lane_start(lane)
        before, begin = self._samples_before, int(cuts[self.window_of(lane, index)])
        places = np.arange(
            int(before.searchsorted(begin, side="right")) - 1, int(before.searchsorted(cuts[-1]))
        )
        places = places[before[places + 1] > before[places]]
        windows = np.searchsorted(cuts, np.maximum(before[places], begin), side="right") - 1
        return self._chunks[places], cuts[windows] - first, cuts[windows + 1] - first

    def _places(self, lane: int, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the places in the row of samples that a lane yields at some indices."""
        start = self.lane_start(lane)
        places = indices + start
        for window in np.unique(np.searchsorted(self._window_cuts(lane), places, side="right") - 1):
            plan = self.window(lane, int(window))
            if plan.permutation is not None:
                own = (indices >= plan.first) & (indices < plan.first + plan.num_samples)
                places[own] = start + plan.first + plan.permutation[indices[own] - plan.first]
        return places

    def _spans(self, start: int, stop: int) -> Iterator[Span]:
        before = self._samples_before
        chunk = int(before.searchsorted(start, side="right")) - 1
        while start < stop:
            end = min(stop, int(before[chunk + 1]))
            if end > start:
                # Chunks without samples have equal entries in _samples_before; searchsorted from
                # the right and this test skip them.
                base = int(before[chunk])
                yield Span(int(self._chunks[chunk]), start - base, end - base)
            start, chunk = end, chunk + 1

    def _window_cuts(self, lane: int) -> list[int]:
        """Return the places in the row where windows of a lane start; last, the end of the lane."""
        if lane not in self._cuts:
            start = self.lane_start(lane)
            self._cuts[lane] = [start, *self._iter_cuts(lane, start, self.lane_start(lane + 1))]
        return self._cuts[lane]

    def _iter_cuts(self, lane: int, start: int, stop: int) -> Iterator[int]:
        """Yield the ends of the windows of a lane: ends of chunks, and the end of the lane."""
        samples, sizes = self._samples_before, self._bytes_before
        number = 0
        while start < stop:
            chunk = int(samples.searchsorted(start, side="right")) - 1
            # The window takes whole chunks up to its budget, but at least ``least`` chunks. The
            # first window of a lane may begin in the middle of a chunk, which counts as a whole
            # one.
            end_bytes = int(sizes[chunk]) + self._budget(lane, number)
            last = int(sizes.searchsorted(end_bytes, side="right")) - 1
            least = _MIN_CHUNKS if self._order.shuffle and number else 1
            start = min(stop, int(samples[min(max(last, chunk + least), len(samples) - 1)]))
            number += 1
            yield start

    def _budget(self, lane: int, number: int) -> int:
        """Return how many bytes window ``number`` of a lane may take.

        The second windows have different sizes in all lanes. With equal sizes all lanes would need
        their next window at the same time, and all of these would have to be loaded ahead.
        """
        budget = max(1, self._order.window_bytes // self.lanes)
        if not self._order.shuffle or number > 1:
            return budget
        return budget * (lane + 1) // self.lanes if number else budget // _FIRST_SHARE


def _before(values: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(values, dtype=np.int64)])


# --- Cuts an epoch into the batches of a rank, and lists the windows that they need, in order


class Tail(StrEnum):
    """Treatment of the last samples of an epoch if they do not fill a global batch.

    All ranks get the same number of batches. SHORT: the last batch holds the remaining samples, on
    some ranks perhaps none; every sample comes once. DROP: the remaining samples are left out.
    PAD: the last batch is filled with samples from the start of the epoch, and ``Batch.valid``
    tells the rows that count. REPEAT: the last batch is filled in the same way, and all rows
    count.
    """

    SHORT = "short"
    DROP = "drop"
    PAD = "pad"
    REPEAT = "repeat"


@dataclass(frozen=True)
class RankShare:
    """One of several readers that share an epoch.

    Attributes:
        rank: Number of the reader, from 0.
        world_size: Number of readers.

    Raises:
        ConfigError: The rank is not below ``world_size``.
    """

    rank: int
    world_size: int

    def __post_init__(self) -> None:
        rank_of(self.rank, self.world_size)

    def positions(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the positions of the rank in ``[start, stop)``, ascending."""
        first = start + (self.rank - start) % self.world_size
        return np.arange(first, max(first, stop), self.world_size, dtype=np.int64)

    def count(self, start: int, stop: int) -> int:
        """Return how many positions in ``[start, stop)`` belong to the rank."""
        first = start + (self.rank - start) % self.world_size
        return max(0, -(-(stop - first) // self.world_size))


@dataclass(frozen=True)
class BatchCut:
    """How the positions from ``start`` to the end of an epoch are cut for one rank.

    Attributes:
        total: Samples of the epoch; or the position where a stretch begins that is left out.
        start: First position.
        share: Rank and world size.
        batch_size: Rows per batch.
        tail: Treatment of the last samples if they do not fill a global batch.
        kept: Positions of the epoch, half-open ranges, that are not left out; empty for all.
    """

    total: int
    start: int
    share: RankShare
    batch_size: int
    tail: Tail
    kept: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ConfigError(f"expected a batch_size from 1 on, got {self.batch_size}")
        if not 0 <= self.start <= self.total:
            raise ConfigError(
                f"expected a position from 0 to {self.total}, the samples of an epoch, got"
                f" {self.start}"
            )

    @cached_property
    def global_batch(self) -> int:
        """Number of positions that one batch of every rank takes together."""
        return self.batch_size * self.share.world_size

    @cached_property
    def num_batches(self) -> int:
        """Number of remaining batches, the same on every rank."""
        left = self.total - self.start
        whole = left // self.global_batch
        return whole if self.tail is Tail.DROP else whole + bool(left % self.global_batch)

    @cached_property
    def stop(self) -> int:
        """The position after the last one whose sample is read."""
        return min(self.total, self.start + self.num_batches * self.global_batch)

    @property
    def num_samples(self) -> int:
        """Number of remaining samples of this rank, without padding."""
        return self.share.count(self.start, self.stop)

    def padding(self) -> NDArray[np.int64]:
        """Return the positions that fill the last batch of this rank, from the epoch's start."""
        if self.tail not in (Tail.PAD, Tail.REPEAT) or not self.total:
            return np.zeros(0, np.int64)
        end = self.start + self.num_batches * self.global_batch
        places = self.share.positions(self.total, end)
        if not self.kept:
            return places % self.total
        return _among(self.kept, places - self.total)

    def position_after(self, num_batches: int) -> int:
        """Return the position of the next global batch after ``num_batches`` of them."""
        return min(self.total, self.start + num_batches * self.global_batch)


def _among(kept: tuple[tuple[int, int], ...], places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the positions of samples that are numbered without those that are left out."""
    starts, stops = np.array(kept, np.int64).T
    before = np.cumsum(stops - starts) - (stops - starts)
    numbers = places % int((stops - starts).sum())
    part = np.searchsorted(before, numbers, side="right") - 1
    found: NDArray[np.int64] = starts[part] + numbers - before[part]
    return found


_NO_USES: Final = (np.zeros(0, np.int64), np.zeros(0, np.int64))


@dataclass(frozen=True)
class EpochPart:
    """The part of an epoch that one rank reads.

    Attributes:
        order: The order of the epoch.
        share: Rank and world size.
        start: First position.
        stop: The position after the last one.
        child: Number of the set within a mixture.
    """

    order: EpochOrder
    share: RankShare
    start: int
    stop: int
    child: int = 0

    @property
    def period(self) -> int:
        """Number of lanes that the rank reads; its positions visit them in turn."""
        return self.order.lanes // math.gcd(self.share.world_size, self.order.lanes)

    def tasks(self) -> Iterator[Task]:
        """Yield the windows in the order in which they are needed."""
        # Rank r visits lane l if some position p has p % world_size == r and p % lanes == l, that
        # is, if r and l are equal modulo the greatest common divisor of both numbers.
        common = math.gcd(self.share.world_size, self.order.lanes)
        lanes = range(self.share.rank % common, self.order.lanes, common)
        merged = heapq.merge(*map(self._lane_tasks, lanes), key=attrgetter("need"))
        return takewhile(lambda task: task.need < self.stop, merged)

    def uses(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the chunks of the windows, in the order in which they are needed.

        Returns:
            The need of the window (see ``Task``), ascending, and a chunk of it; shape ``(n,)``.
        """
        common = math.gcd(self.share.world_size, self.order.lanes)
        lanes = range(self.share.rank % common, self.order.lanes, common)
        needs, chunks = (
            np.concatenate(each) for each in zip(*map(self._lane_uses, lanes), strict=True)
        )
        order = np.argsort(needs, kind="stable")
        return needs[order], chunks[order]

    def _lane_uses(self, lane: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        index, stride = self._first_index(lane)
        if index >= self.order.lane_samples(lane):
            return _NO_USES
        chunks, starts, stops = self.order.chunks_from(lane, index)
        indices = np.maximum(starts, index)
        indices += (index - indices) % stride
        needs = indices * self.order.lanes + lane
        own = (indices < stops) & (needs < self.stop)
        return needs[own], chunks[own]

    def _first_index(self, lane: int) -> tuple[int, int]:
        """Return the rank's first index in a lane, and the distance to the next one."""
        num_lanes, world_size = self.order.lanes, self.share.world_size
        common = math.gcd(world_size, num_lanes)
        stride = world_size // common
        # The indices of this lane that belong to the rank solve index * lanes + lane = rank (mod
        # world_size). Divided by ``common``, lanes has an inverse modulo ``stride``, so they are
        # the indices with index = residue (mod stride).
        inverse = pow(num_lanes // common, -1, stride) if stride > 1 else 0
        residue = (self.share.rank - lane) // common * inverse % stride
        # The first index at or after ``start``, rounded up to the next one with this residue.
        least = max(0, -(-(self.start - lane) // num_lanes))
        return least + (residue - least) % stride, stride

    def _lane_tasks(self, lane: int) -> Iterator[Task]:
        num_lanes = self.order.lanes
        index, stride = self._first_index(lane)
        num_samples = self.order.lane_samples(lane)
        while index < num_samples:
            window = self.order.window_of(lane, index)
            start, stop = self.order.window_range(lane, window)
            need = index * num_lanes + lane
            yield Task(self.child, self.order.epoch, lane, window, index - start, stride, need)
            # On to the rank's first index after the window; a short window may have none of its
            # own.
            index += stride * -(-(stop - index) // stride)

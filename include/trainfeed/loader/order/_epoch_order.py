"""The order of an epoch: a pure function of (content digest, seed, epoch, position).

::

    chunks of the set ──permute──► one long row of samples ──cut by record──► L lanes
    lane ──cut by bytes──► windows ──permute the samples of each──► what the lane yields
    position p ──► lane p mod L, index p // L

The order depends on no rank, worker, batch size or prefetching: these only choose positions. In
natural order there is one lane, and nothing is permuted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import ConfigError
from trainfeed.loader.order._keyed import permutation

__all__ = ["DEFAULT_WINDOW_BYTES", "EpochOrder", "Order", "Span", "WindowPlan", "lanes_for"]

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

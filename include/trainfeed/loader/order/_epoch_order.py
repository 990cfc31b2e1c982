"""The order of an epoch: a pure function of (content digest, seed, epoch, position).

::

    chunks of the set ──permute──► one long row of samples ──cut by record──► L lanes
    lane ──cut by bytes──► windows ──permute the samples of each──► what the lane yields
    position p ──► lane p mod L, index p // L

Nothing here depends on ranks, workers, batch sizes or prefetching: those choose positions. In
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

# Bytes of all open windows together. Twice the largest common L3 cache: samples mix over several
# chunks of every lane, and a rank that reads alone still needs little memory.
DEFAULT_WINDOW_BYTES: Final = 64 << 20

_MIN_LANES: Final = 16
_MIN_CHUNKS: Final = 2
# The first window of a lane takes 1/8 of its budget, or a chunk, so that the first batch, which
# needs a window of every lane, comes early.
_FIRST_SHARE: Final = 8


def lanes_for(world_size: int) -> int:
    """Return the number of lanes for a set that is first read by ``world_size`` ranks.

    The smallest multiple of it from 16 on: every rank has lanes of its own, and so has every rank
    after most changes of their number.
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
        first: Index in the lane of the first sample that it yields.
        num_samples: How many it yields.
        spans: What must be read for it, in order.
        permutation: Which sample of the spans comes when, shape ``(num_samples,)``; None for as
            they lie.
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
        digest: What identifies the content.
        seed: Anything but the content that the order depends on.
        lanes: In how many lanes an epoch is cut. 1, and ``shuffle`` False, is the natural order.
        window_bytes: Bytes of the windows of all lanes together.
        shuffle: Whether anything is permuted.
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
        """How many samples an epoch has."""
        return int(self.num_samples.sum())

    @cached_property
    def max_window_bytes(self) -> int:
        """The most bytes of chunks that a window of any epoch reads."""
        largest = int(self.num_bytes.max(initial=0))
        most = max(self.window_bytes // self.lanes, largest * (_MIN_CHUNKS if self.shuffle else 1))
        return min(most, int(self.num_bytes.sum()))

    def epoch(self, epoch: int) -> EpochOrder:
        """Return the order of one epoch; the latest ones are remembered."""
        return self._epochs(epoch)

    def __getstate__(self) -> dict[str, object]:
        """Leave out what was computed: every process computes it for itself."""
        return {name: value for name, value in self.__dict__.items() if name in self._own}

    @cached_property
    def _epochs(self) -> Callable[[int], EpochOrder]:
        # Cursors, and what loads ahead of them, ask for the same ones again and again.
        return lru_cache(maxsize=2)(lambda epoch: EpochOrder(self, epoch))

    @property
    def _own(self) -> set[str]:
        return {field.name for field in fields(self)}


class EpochOrder:
    """The order of one epoch.

    Args:
        order: That of all epochs.
        epoch: Its number, from 0.
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
        # Where the samples, and the bytes, of the chunks before end; one more than chunks.
        self._samples_before = _before(order.num_samples[self._chunks])
        self._bytes_before = _before(order.num_bytes[self._chunks])
        self._cuts: dict[int, list[int]] = {}

    def lane_start(self, lane: int) -> int:
        """Return where a lane starts in the row of samples; the sizes differ by at most 1."""
        return lane * self._lane_size + min(lane, self._num_longer)

    def lane_samples(self, lane: int) -> int:
        """Return how many samples a lane has."""
        return self.lane_start(lane + 1) - self.lane_start(lane)

    def window_of(self, lane: int, index: int) -> int:
        """Return the number of the window that yields sample ``index`` of a lane."""
        cuts = self._window_cuts(lane)
        return bisect_right(cuts, index + self.lane_start(lane)) - 1

    def window_range(self, lane: int, window: int) -> tuple[int, int]:
        """Return the range of indices in the lane, half-open, that a window yields."""
        cuts, start = self._window_cuts(lane), self.lane_start(lane)
        return cuts[window] - start, cuts[window + 1] - start

    def window(self, lane: int, window: int) -> WindowPlan:
        """Return what a window reads and yields."""
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
        """Return what must be read for a window, in order."""
        cuts = self._window_cuts(lane)
        return list(self._spans(cuts[window], cuts[window + 1]))

    def samples(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the ordinals, in the set, of the samples at positions; shape ``(n,)``."""
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
        """Return where samples of a lane lie in the row of samples."""
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
                base = int(before[chunk])
                yield Span(int(self._chunks[chunk]), start - base, end - base)
            start, chunk = end, chunk + 1

    def _window_cuts(self, lane: int) -> list[int]:
        """Return where the windows of a lane start, and where the last one ends, in the row."""
        if lane not in self._cuts:
            start = self.lane_start(lane)
            self._cuts[lane] = [start, *self._iter_cuts(lane, start, self.lane_start(lane + 1))]
        return self._cuts[lane]

    def _iter_cuts(self, lane: int, start: int, stop: int) -> Iterator[int]:
        """Yield where windows end: at ends of chunks, and at the lane's."""
        samples, sizes = self._samples_before, self._bytes_before
        number = 0
        while start < stop:
            chunk = int(samples.searchsorted(start, side="right")) - 1
            end_bytes = int(sizes[chunk]) + self._budget(lane, number)
            last = int(sizes.searchsorted(end_bytes, side="right")) - 1
            least = _MIN_CHUNKS if self._order.shuffle and number else 1
            start = min(stop, int(samples[min(max(last, chunk + least), len(samples) - 1)]))
            number += 1
            yield start

    def _budget(self, lane: int, number: int) -> int:
        """Return how many bytes window ``number`` of a lane may take.

        The second windows differ from lane to lane. Else all lanes would always need their next
        one at the same time, and what loads ahead would have to load all of them ahead.
        """
        budget = max(1, self._order.window_bytes // self.lanes)
        if not self._order.shuffle or number > 1:
            return budget
        return budget * (lane + 1) // self.lanes if number else budget // _FIRST_SHARE


def _before(values: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(values, dtype=np.int64)])

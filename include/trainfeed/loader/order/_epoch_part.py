"""Cuts an epoch into the batches of a rank, and lists the windows that they need, in order.

A global batch is ``world_size * batch_size`` consecutive positions; rank r takes the positions
with ``p % world_size == r``. So the order of samples depends neither on the number of ranks nor on
the batch size. After a change of either, the rest of the epoch is cut again.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import takewhile
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import ConfigError
from trainfeed.loader.order._epoch_order import EpochOrder
from trainfeed.loader.order._task import Task
from trainfeed.whole_numbers import rank_of

__all__ = ["BatchCut", "EpochPart", "RankShare", "Tail"]


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
        """The position behind the last one whose sample is read."""
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


@dataclass(frozen=True)
class EpochPart:
    """The part of an epoch that one rank reads.

    Attributes:
        order: The order of the epoch.
        share: Rank and world size.
        start: First position.
        stop: The position behind the last one.
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

    def _lane_tasks(self, lane: int) -> Iterator[Task]:
        num_lanes, world_size = self.order.lanes, self.share.world_size
        common = math.gcd(world_size, num_lanes)
        stride = world_size // common
        # The indices of this lane that belong to the rank solve index * lanes + lane = rank (mod
        # world_size). Divided by ``common``, lanes has an inverse modulo ``stride``, so they are
        # the indices with index = residue (mod stride).
        inverse = pow(num_lanes // common, -1, stride) if stride > 1 else 0
        residue = (self.share.rank - lane) // common * inverse % stride
        # The first index at or behind ``start``, rounded up to the next one with this residue.
        least = max(0, -(-(self.start - lane) // num_lanes))
        index = least + (residue - least) % stride
        num_samples = self.order.lane_samples(lane)
        while index < num_samples:
            window = self.order.window_of(lane, index)
            start, stop = self.order.window_range(lane, window)
            need = index * num_lanes + lane
            yield Task(self.child, self.order.epoch, lane, window, index - start, stride, need)
            # On to the rank's first index behind the window; a short window may have none of its
            # own.
            index += stride * -(-(stop - index) // stride)

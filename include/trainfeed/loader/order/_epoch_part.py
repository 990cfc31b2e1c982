"""What one rank reads of an epoch, and which windows that needs when."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from operator import attrgetter

from trainfeed.loader.order._cut import RankShare
from trainfeed.loader.order._epoch_order import EpochOrder
from trainfeed.loader.order._task import Task

__all__ = ["EpochPart"]


@dataclass(frozen=True)
class EpochPart:
    """What one rank reads of an epoch.

    Attributes:
        order: The order of the epoch.
        share: Which rank of how many.
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
        """How many lanes the rank reads; its positions visit them in turn."""
        return self.order.lanes // math.gcd(self.share.world_size, self.order.lanes)

    def tasks(self) -> Iterator[Task]:
        """Yield the windows in the order in which they are needed."""
        common = math.gcd(self.share.world_size, self.order.lanes)
        lanes = range(self.share.rank % common, self.order.lanes, common)
        merged = heapq.merge(*map(self._lane_tasks, lanes), key=attrgetter("need"))
        return takewhile(lambda task: task.need < self.stop, merged)

    def _lane_tasks(self, lane: int) -> Iterator[Task]:
        num_lanes, world_size = self.order.lanes, self.share.world_size
        common = math.gcd(world_size, num_lanes)
        stride = world_size // common
        # index * lanes + lane = rank (mod world_size)
        inverse = pow(num_lanes // common, -1, stride) if stride > 1 else 0
        residue = (self.share.rank - lane) // common * inverse % stride
        least = max(0, -(-(self.start - lane) // num_lanes))
        index = least + (residue - least) % stride
        num_samples = self.order.lane_samples(lane)
        while index < num_samples:
            window = self.order.window_of(lane, index)
            start, stop = self.order.window_range(lane, window)
            need = index * num_lanes + lane
            yield Task(self.child, self.order.epoch, lane, window, index - start, stride, need)
            index += stride * -(-(stop - index) // stride)

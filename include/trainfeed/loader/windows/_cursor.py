"""Walks through an epoch: takes windows as positions need them, and copies their samples.

A cursor takes windows in the order of the positions at which they are needed, and holds one window
per lane. So a feed can load ahead in a simple queue. Memory is needed for one window per lane, and
for those that are loaded ahead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from trainfeed.loader.columns import Columns, LentMemory, LentPool, Rows, Targets, targets_for
from trainfeed.loader.order import EpochPart
from trainfeed.loader.windows._load_window import Feed, Window

__all__ = ["Cursor", "Fetched"]


class Fetched(NamedTuple):
    """Samples at some positions.

    Attributes:
        columns: Columns that contain the samples.
        start: Row of the first sample in ``columns``.
        stop: Row after the last sample. With an ``error`` there are fewer samples than requested.
        error: The error of the first missing sample; None if none is missing.
    """

    columns: Columns
    start: int
    stop: int
    error: BaseException | None


@dataclass
class _OpenWindow:
    """The window of a lane that is being read.

    Attributes:
        window: The loaded samples.
        index: Index in the lane of the first loaded sample.
        stride: Distance between the indices of loaded samples.
    """

    window: Window
    index: int
    stride: int


class _Part(Protocol):
    """The positions of one fetch that belong to one lane."""

    def take(self, opened: _OpenWindow, index_stop: int) -> tuple[Rows, Rows] | None:
        """Return places in the fetch and rows of the window for indices below ``index_stop``."""


class _RegularPart:
    """Positions at equal distances, which visit the lanes in turn: slices describe them.

    Every ``period``-th position of the fetch belongs to this lane; from one to the next the index
    in the lane grows by ``step``.
    """

    def __init__(self, where: slice, first: int, step: int) -> None:
        self._start, self._stop, self._period = where.start, where.stop, where.step
        self._index = first
        self._step = step

    def take(self, opened: _OpenWindow, index_stop: int) -> tuple[Rows, Rows] | None:
        """Return places and rows; see ``_Part``."""
        # Rounded up: the places left in the fetch, and the indices left below index_stop.
        left = -(-(self._stop - self._start) // self._period)
        count = min(left, -(-(index_stop - self._index) // self._step))
        if count <= 0:
            return None
        end = self._start + count * self._period
        row = (self._index - opened.index) // opened.stride
        # The slice ends one after its last place: ``end`` itself may be beyond the end of the
        # fetch.
        where = slice(self._start, end - self._period + 1, self._period)
        self._start, self._index = end, self._index + count * self._step
        return where, slice(row, row + count)


class _ChosenPart:
    """Positions at arbitrary distances, as arrays of places and indices."""

    def __init__(self, where: NDArray[np.int64], indices: NDArray[np.int64]) -> None:
        self._where = where
        self._indices = indices
        self._done = 0

    def take(self, opened: _OpenWindow, index_stop: int) -> tuple[Rows, Rows] | None:
        """Return places and rows; see ``_Part``."""
        start = self._done
        stop = int(np.searchsorted(self._indices, index_stop))
        if stop <= start:
            return None
        self._done = stop
        rows = (self._indices[start:stop] - opened.index) // opened.stride
        first, last = int(rows[0]), int(rows[-1])
        # Rows ascend, so this count tells whether they are consecutive; a slice copies faster.
        in_row = last - first + 1 == stop - start
        return self._where[start:stop], slice(first, last + 1) if in_row else rows


class Cursor:
    """Reads samples at ascending positions of an epoch.

    Args:
        part: The part of the epoch to read. Any of its positions may be fetched, each once,
            ascending.
        feed: Loads the windows of ``part.tasks()``.
        pool: Lends memory for the results of ``fetch``.
    """

    def __init__(self, part: EpochPart, feed: Feed, pool: LentPool) -> None:
        self._part = part
        self._lanes = part.order.lanes
        self._feed = feed
        self._pool = pool
        self._tasks = part.tasks()
        self._next = next(self._tasks, None)
        self._open: dict[int, _OpenWindow] = {}
        # State of the current fetch.
        self._positions: NDArray[np.int64] = np.zeros(0, np.int64)
        self._stop = 0
        self._parts: dict[int, _Part] = {}
        self._targets: Targets | None = None
        # The first position that cannot be read, and its error.
        self._failed: tuple[int, BaseException] | None = None

    @property
    def is_done(self) -> bool:
        """Whether all windows of the pass were taken."""
        return self._next is None

    def fetch(self, positions: NDArray[np.int64]) -> Fetched:
        """Return the samples at ``positions``, shape ``(n,)``, in owned memory."""
        self.begin(positions)
        while self._next is not None and self._next.need < self._limit(self._stop):
            self.step()
        return self.end()

    def begin(self, positions: NDArray[np.int64]) -> None:
        """Start a fetch; callers with several cursors then call ``step`` in their common order."""
        self._positions = positions
        self._stop = int(positions[-1]) + 1 if len(positions) else 0
        self._parts = dict(self._split(positions)) if len(positions) else {}
        self._targets = None

    def step(self) -> None:
        """Replace the next window, after copying the samples that the fetch still needs of it."""
        if self._next is None:
            return
        lane = self._next.lane
        if lane in self._parts and lane in self._open:
            self._drain(lane, self._parts[lane])
        self._acquire()

    def end(self) -> Fetched:
        """Copy the samples of the open windows, and return the samples of the fetch."""
        for lane, part in self._parts.items():
            if lane in self._open:
                self._drain(lane, part)
        num_good = int(np.searchsorted(self._positions, self._limit(self._stop)))
        columns = {} if self._targets is None else self._targets.columns(num_good)
        error = self._failed[1] if self._failed and num_good < len(self._positions) else None
        self._parts, self._targets = {}, None
        return Fetched(columns, 0, num_good, error)

    def _split(self, positions: NDArray[np.int64]) -> Iterator[tuple[int, _Part]]:
        """Yield the lanes that positions visit."""
        period, world_size = self._part.period, self._part.share.world_size
        num_samples, start = len(positions), int(positions[0])
        if int(positions[-1]) - start == (num_samples - 1) * world_size:
            # Consecutive positions of one rank: world_size apart. After ``period`` of them the
            # same lane is visited again, ``step`` indices further on.
            step = period * world_size // self._lanes
            for first in range(min(period, num_samples)):
                index, lane = divmod(start + first * world_size, self._lanes)
                yield lane, _RegularPart(slice(first, num_samples, period), index, step)
            return
        lanes = positions % self._lanes
        for lane in np.unique(lanes).tolist():
            own = np.flatnonzero(lanes == lane)
            yield lane, _ChosenPart(own, positions[own] // self._lanes)

    def _limit(self, stop: int) -> int:
        return stop if self._failed is None else min(stop, self._failed[0])

    def _acquire(self) -> None:
        """Replace the window of a lane by the next one."""
        task = self._next
        if task is None:
            return
        self._open.pop(task.lane, None)
        try:
            window = self._feed.next()
        except Exception as error:  # noqa: BLE001 - raised after the samples before it
            self._fail(task.need, error)
            return
        self._next = next(self._tasks, None)
        start, _ = self._part.order.window_range(task.lane, task.window)
        first = start + task.first
        if window.error is not None:
            # The position of the first sample that the window lacks: index * lanes + lane.
            bad = (first + window.num_samples * task.stride) * self._lanes + task.lane
            self._fail(bad, window.error)
        self._open[task.lane] = _OpenWindow(window, first, task.stride)

    def _fail(self, position: int, error: BaseException) -> None:
        if self._failed is None or position < self._failed[0]:
            self._failed = position, error

    def _drain(self, lane: int, part: _Part) -> None:
        """Copy the samples of a part that the open window of the lane holds."""
        opened = self._open[lane]
        end = opened.index + opened.window.num_samples * opened.stride
        # The first index whose position, index * lanes + lane, is not below the limit.
        limit = -(-(self._limit(self._stop) - lane) // self._lanes)
        taken = part.take(opened, min(end, limit))
        if taken is not None:
            columns = opened.window.columns
            if self._targets is None:
                num_samples = len(self._positions)
                self._targets = targets_for(columns, num_samples, LentMemory(self._pool))
            self._targets.put(columns, *taken)

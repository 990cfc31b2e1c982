"""Goes through an epoch: which windows are needed when, and where their samples belong.

A cursor asks for windows in the order of the positions at which they are needed, and holds one
window per lane. So what loads them can run ahead in a simple queue, and needs memory for no more
than the lanes and what is ahead.
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
        columns: Hold them.
        start: Number of the first one in ``columns``.
        stop: Number behind the last one; there are fewer than were asked for when ``error`` keeps
            the rest.
        error: What happened to the first one that is missing.
    """

    columns: Columns
    start: int
    stop: int
    error: BaseException | None


@dataclass
class _OpenWindow:
    """The window of a lane that is being read.

    Attributes:
        window: Its samples.
        index: Index in the lane of its first one.
        stride: How far their indices are apart.
    """

    window: Window
    index: int
    stride: int


class _Part(Protocol):
    """The positions of one fetch that lie in one lane."""

    def take(self, opened: _OpenWindow, index_stop: int) -> tuple[Rows, Rows] | None:
        """Return the places in the fetch, and the rows of the window, below ``index_stop``."""


class _RegularPart:
    """Positions that visit the lanes in turn: plain numbers say where they are."""

    def __init__(self, where: slice, first: int, step: int) -> None:
        self._start, self._stop, self._period = where.start, where.stop, where.step
        self._index = first
        self._step = step

    def take(self, opened: _OpenWindow, index_stop: int) -> tuple[Rows, Rows] | None:
        """Return places and rows; see ``_Part``."""
        left = -(-(self._stop - self._start) // self._period)
        count = min(left, -(-(index_stop - self._index) // self._step))
        if count <= 0:
            return None
        end = self._start + count * self._period
        row = (self._index - opened.index) // opened.stride
        # One beyond the last place, which may be beyond the end of the fetch.
        where = slice(self._start, end - self._period + 1, self._period)
        self._start, self._index = end, self._index + count * self._step
        return where, slice(row, row + count)


class _ChosenPart:
    """Positions without a rule."""

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
        in_row = last - first + 1 == stop - start
        return self._where[start:stop], slice(first, last + 1) if in_row else rows


class Cursor:
    """Reads samples at ascending positions of an epoch.

    Args:
        part: What is read. Any positions of its share may be asked for, each once, ascending.
        feed: Loads the windows of ``part.tasks()``.
        pool: Gives memory for what ``fetch`` returns.
    """

    def __init__(self, part: EpochPart, feed: Feed, pool: LentPool) -> None:
        self._part = part
        self._lanes = part.order.lanes
        self._feed = feed
        self._pool = pool
        self._tasks = part.tasks()
        self._next = next(self._tasks, None)
        self._open: dict[int, _OpenWindow] = {}
        # Of the fetch that is under way.
        self._positions: NDArray[np.int64] = np.zeros(0, np.int64)
        self._stop = 0
        self._parts: dict[int, _Part] = {}
        self._targets: Targets | None = None
        # The first position that cannot be read, and why.
        self._failed: tuple[int, BaseException] | None = None

    def fetch(self, positions: NDArray[np.int64]) -> Fetched:
        """Return the samples at ``positions``, shape ``(n,)``, in owned memory."""
        self.begin(positions)
        while self._next is not None and self._next.need < self._limit(self._stop):
            self.step()
        return self.end()

    def begin(self, positions: NDArray[np.int64]) -> None:
        """Start a fetch whose windows are acquired one by one, for callers of several cursors."""
        self._positions = positions
        self._stop = int(positions[-1]) + 1 if len(positions) else 0
        self._parts = dict(self._split(positions)) if len(positions) else {}
        self._targets = None

    def step(self) -> None:
        """Copy what the fetch wants of the window that is due for replacement, and replace it."""
        if self._next is None:
            return
        lane = self._next.lane
        if lane in self._parts and lane in self._open:
            self._drain(lane, self._parts[lane])
        self._acquire()

    def end(self) -> Fetched:
        """Return what the fetch has got."""
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
        except Exception as error:  # noqa: BLE001 - raised behind the samples before it
            self._fail(task.need, error)
            return
        self._next = next(self._tasks, None)
        start, _ = self._part.order.window_range(task.lane, task.window)
        first = start + task.first
        if window.error is not None:
            bad = (first + window.num_samples * task.stride) * self._lanes + task.lane
            self._fail(bad, window.error)
        self._open[task.lane] = _OpenWindow(window, first, task.stride)

    def _fail(self, position: int, error: BaseException) -> None:
        if self._failed is None or position < self._failed[0]:
            self._failed = position, error

    def _drain(self, lane: int, part: _Part) -> None:
        """Copy what the open window of a lane has of a part."""
        opened = self._open[lane]
        end = opened.index + opened.window.num_samples * opened.stride
        limit = -(-(self._limit(self._stop) - lane) // self._lanes)
        taken = part.take(opened, min(end, limit))
        if taken is not None:
            columns = opened.window.columns
            if self._targets is None:
                num_samples = len(self._positions)
                self._targets = targets_for(columns, num_samples, LentMemory(self._pool))
            self._targets.put(columns, *taken)

"""A set with its order; a loader makes a new engine when a state with another order is restored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trainfeed.loader.columns import Columns, LentMemory, LentPool, joined
from trainfeed.loader.order import BatchCut, EpochPart, Order, RankShare, Task
from trainfeed.loader.sources import Loaded, Source
from trainfeed.loader.state import LoaderState, LoaderStats
from trainfeed.loader.windows._cursor import Cursor
from trainfeed.loader.windows._feeds import InlineFeed
from trainfeed.loader.windows._lane import LaneReader
from trainfeed.loader.windows._load_window import Feed, expect_window, load_window
from trainfeed.loader.windows._pass import RunReader, WindowReader

__all__ = ["Engine", "SetEngine", "repeated"]


class Engine(Protocol):
    """Reads a set, or a mixture of sets.

    Attributes:
        total: Samples of an epoch.
        sample_bytes: Average bytes of a sample.
        pool: Memory for windows.
    """

    total: int
    sample_bytes: float
    pool: LentPool

    @property
    def children(self) -> list[tuple[Source, Order]]:
        """The sets and their orders, which workers need to load windows."""

    @property
    def window_bytes(self) -> int | None:
        """Bytes of a loaded window; None if unknown."""

    def period(self, cut: BatchCut, /) -> int:
        """Return how many windows of a pass may be open at once."""

    def tasks(self, cut: BatchCut, state: LoaderState) -> Iterator[Task]:
        """Yield the windows of a pass in the order of need."""

    def reader(self, cut: BatchCut, state: LoaderState, feed: Feed) -> WindowReader | RunReader:
        """Return the reader of a pass; ``feed`` loads the windows of ``tasks``."""

    def pad(self, positions: NDArray[np.int64], state: LoaderState) -> Columns:
        """Return samples at any positions of an epoch."""

    def expect(self, task: Task) -> None:
        """Let the kernel begin to read a window that is loaded soon."""

    def load(self, task: Task, memory: LentMemory) -> Loaded:
        """Load a window in this process."""


class SetEngine:
    """Reads one set; see ``Engine``.

    Args:
        source: The set.
        state: State with seed, lanes and window bytes of the order.
        stats: The counters of the loader.
    """

    def __init__(self, source: Source, state: LoaderState, stats: LoaderStats) -> None:
        self._source = source
        self._stats = stats
        self.order = Order(
            num_samples=source.num_samples,
            num_bytes=source.num_bytes,
            digest=source.digest,
            seed=state.seed,
            lanes=state.lanes,
            window_bytes=state.window or source.natural_window_bytes,
            shuffle=bool(state.window),
        )
        self.total = self.order.total
        self.sample_bytes = float(source.num_bytes.sum()) / max(1, self.total)
        self.pool = LentPool()
        self._blocks = LentPool()

    def period(self, cut: BatchCut) -> int:
        """Return how many windows may be open at once: one per lane that the rank reads."""
        return self._part(cut, 0).period

    def tasks(self, cut: BatchCut, state: LoaderState) -> Iterator[Task]:
        """Yield the windows of a pass in the order of need."""
        return self._part(cut, state.epoch).tasks()

    def reader(self, cut: BatchCut, state: LoaderState, feed: Feed) -> WindowReader | RunReader:
        """Return the reader of a pass; ``feed`` loads the windows of ``tasks``."""
        part = self._part(cut, state.epoch)
        return LaneReader(part, feed) if part.period == 1 else Cursor(part, feed, self._blocks)

    def pad(self, positions: NDArray[np.int64], state: LoaderState) -> Columns:
        """Return samples at any positions of an epoch."""
        wanted, places = np.unique(positions, return_inverse=True)
        part = EpochPart(self.order.epoch(state.epoch), RankShare(0, 1), 0, int(wanted[-1]) + 1)
        feed = InlineFeed(part.tasks(), self.load, self.pool, self._stats)
        fetched = Cursor(part, feed, self._blocks).fetch(wanted)
        if fetched.error is not None:
            raise fetched.error
        return repeated(fetched.columns, places)

    @property
    def children(self) -> list[tuple[Source, Order]]:
        """The sets and their orders, which workers need to load windows."""
        return [(self._source, self.order)]

    @property
    def window_bytes(self) -> int | None:
        """Bytes of a loaded window; None if unknown."""
        return self._source.output_bytes(self.order.max_window_bytes)

    def expect(self, task: Task) -> None:
        """Let the kernel begin to read a window."""
        expect_window(self._source, self.order, task)

    def load(self, task: Task, memory: LentMemory) -> Loaded:
        """Load a window in this process."""
        return load_window(self._source, self.order, task, memory)

    def _part(self, cut: BatchCut, epoch: int) -> EpochPart:
        return EpochPart(self.order.epoch(epoch), cut.share, cut.start, cut.stop)


def repeated(columns: Columns, rows: NDArray[np.int64]) -> Columns:
    """Return rows of columns, in memory of their own; a row may be repeated."""
    return joined([(columns, rows, len(rows))])

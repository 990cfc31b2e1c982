"""What reads a set in its order, or a mixture of sets, from any position on."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import ConfigError
from trainfeed.loader.columns import Columns, Targets, array_targets, joined
from trainfeed.loader.feeds import InlineFeed
from trainfeed.loader.memory import FreshMemory, LentMemory, LentPool
from trainfeed.loader.mixture import History, Mixture
from trainfeed.loader.order import BatchCut, EpochPart, Order, RankShare, Tail, Task
from trainfeed.loader.passes import Cursor, Fetched, LaneReader, RunReader, WindowReader
from trainfeed.loader.state import LoaderState, LoaderStats
from trainfeed.loader.windows import Feed, Loaded, Source, expect_window, load_window

_ALL: Final = RankShare(0, 1)

# --- A set with its order; a loader makes a new engine when a state with another order is restored


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

    def share(self, cut: BatchCut, /) -> RankShare:
        """Return rank and world size of the windows of a pass."""

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


class _Sets:
    """Sets with their orders, and memory for their windows: what both engines have.

    Args:
        sources: The sets.
        digests: What their orders depend on, besides the state.
        state: State with seed, lanes and window bytes of the orders.
        stats: The counters of the loader.

    Attributes:
        children: The sets and their orders, which workers need to load windows.
        pool: Memory for windows.
        blocks: Memory for batches. Another pool, because every new buffer of a pool gets the
            largest size so far, and windows and batches differ in size.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        digests: Sequence[str],
        state: LoaderState,
        stats: LoaderStats,
    ) -> None:
        self.children = [
            (source, _order_of(source, digest, state))
            for source, digest in zip(sources, digests, strict=True)
        ]
        self.pool = LentPool()
        self.blocks = LentPool()
        self._stats = stats

    @property
    def window_bytes(self) -> int | None:
        """Bytes of a loaded window; None if unknown."""
        sizes = [source.output_bytes(order.max_window_bytes) for source, order in self.children]
        known = [size for size in sizes if size is not None]
        return max(known) if len(known) == len(sizes) else None

    def expect(self, task: Task) -> None:
        """Let the kernel begin to read a window."""
        expect_window(*self.children[task.child], task)

    def load(self, task: Task, memory: LentMemory) -> Loaded:
        """Load a window in this process."""
        return load_window(*self.children[task.child], task, memory)

    def part(self, epoch: int, start: int, stop: int, child: int = 0) -> EpochPart:
        """Return a part of an epoch of one set, for one rank."""
        return EpochPart(self.children[child][1].epoch(epoch), _ALL, start, stop, child)

    def _picked(
        self,
        positions: NDArray[np.int64],
        tasks: Iterator[Task],
        reader: Callable[[Feed], WindowReader],
    ) -> Columns:
        """Return samples at any positions of an epoch."""
        # A reader takes ascending positions, each once; ``places`` restores order and repetitions.
        wanted, places = np.unique(positions, return_inverse=True)
        fetched = reader(InlineFeed(tasks, self.load, self.pool, self._stats)).fetch(wanted)
        if fetched.error is not None:
            raise fetched.error
        return repeated(fetched.columns, places)


def _order_of(source: Source, digest: str, state: LoaderState) -> Order:
    return Order(
        num_samples=source.num_samples,
        num_bytes=source.num_bytes,
        digest=digest,
        seed=state.seed,
        lanes=state.lanes,
        # A window of 0 means stored order: windows then only limit the size of a read.
        window_bytes=state.window or source.natural_window_bytes,
        shuffle=bool(state.window),
    )


class SetEngine(_Sets):
    """Reads one set; see ``Engine``.

    Args:
        source: The set.
        state: State with seed, lanes and window bytes of the order.
        stats: The counters of the loader.
    """

    def __init__(self, source: Source, state: LoaderState, stats: LoaderStats) -> None:
        super().__init__([source], [source.digest], state, stats)
        self.order = self.children[0][1]
        self.total = self.order.total
        self.sample_bytes = float(source.num_bytes.sum()) / max(1, self.total)

    def period(self, cut: BatchCut) -> int:
        """Return how many windows may be open at once: one per lane that the rank reads."""
        return self._part(cut, 0).period

    def share(self, cut: BatchCut) -> RankShare:
        """Return rank and world size of the windows: those of the pass."""
        return cut.share

    def tasks(self, cut: BatchCut, state: LoaderState) -> Iterator[Task]:
        """Yield the windows of a pass in the order of need."""
        return self._part(cut, state.epoch).tasks()

    def reader(self, cut: BatchCut, state: LoaderState, feed: Feed) -> WindowReader | RunReader:
        """Return the reader of a pass; ``feed`` loads the windows of ``tasks``."""
        part = self._part(cut, state.epoch)
        # With one lane, batches are slices of windows. With several, a cursor gathers from one
        # window per lane.
        return LaneReader(part, feed) if part.period == 1 else Cursor(part, feed, self.blocks)

    def pad(self, positions: NDArray[np.int64], state: LoaderState) -> Columns:
        """Return samples at any positions of an epoch."""
        part = self.part(state.epoch, 0, int(positions.max()) + 1)
        return self._picked(positions, part.tasks(), lambda feed: Cursor(part, feed, self.blocks))

    def _part(self, cut: BatchCut, epoch: int) -> EpochPart:
        return EpochPart(self.order.epoch(epoch), cut.share, cut.start, cut.stop)


def repeated(columns: Columns, rows: NDArray[np.int64]) -> Columns:
    """Return rows of columns, in memory of their own; a row may be repeated."""
    return joined([(columns, rows, len(rows))])


# --- Reads a mixture: one cursor per set and epoch of the set, all fed by one queue of windows


class MixtureEngine(_Sets):
    """Reads a mixture; see ``SetEngine``.

    Args:
        mixture: Shares and seed of the sets.
        sources: The sets.
        state: State with seed, lanes and window bytes of the orders.
        stats: The counters of the loader.
    """

    def __init__(
        self,
        mixture: Mixture,
        sources: Sequence[Source],
        state: LoaderState,
        stats: LoaderStats,
    ) -> None:
        empty = [number for number, source in enumerate(sources) if not len(source.num_samples)]
        if empty:
            raise ConfigError(f"expected data sets with samples in a mixture, {empty} have none")
        # With its number: a set that is in the mixture twice has two different orders.
        digests = [f"{each.digest}+{mixture.seed}+{number}" for number, each in enumerate(sources)]
        super().__init__(sources, digests, state, stats)
        samples = sum(order.total for _, order in self.children)
        self.total = mixture.epoch_samples or samples
        self.sample_bytes = sum(float(s.num_bytes.sum()) for s in sources) / max(1, samples)

    def period(self, _cut: BatchCut, /) -> int:
        """Return how many windows may be open at once: one per lane of two epochs of every set."""
        return 2 * sum(order.lanes for _, order in self.children)

    def share(self, _cut: BatchCut, /) -> RankShare:
        """Return rank and world size of the windows: every rank loads all of them."""
        return _ALL

    def tasks(self, cut: BatchCut, state: LoaderState) -> Iterator[Task]:
        """Yield the windows of a pass in the order of need; ``need`` is a position in the set."""
        return (task for _, task in self._merged(cut, state))

    def reader(self, cut: BatchCut, state: LoaderState, feed: Feed) -> _MixtureReader:
        """Return the reader of a pass; ``feed`` loads the windows of ``tasks``."""
        return _MixtureReader(
            self, History(state.weights, len(self.children)), self._merged(cut, state), feed, state
        )

    def pad(self, positions: NDArray[np.int64], state: LoaderState) -> Columns:
        """Return samples at any positions of an epoch."""
        start = replace(state, position=0)
        cut = BatchCut(self.total, 0, _ALL, 1, Tail.SHORT)
        tasks = self.tasks(cut, start)
        return self._picked(positions, tasks, lambda feed: self.reader(cut, start, feed))

    def _merged(self, cut: BatchCut, state: LoaderState) -> Iterator[tuple[int, Task]]:
        """Yield the windows of a pass, each with the position of the stream that first needs it."""
        base, history = state.epoch * self.total, History(state.weights, len(self.children))
        starts, stops = history.counts(base + cut.start), history.counts(base + cut.stop)
        streams = [
            self._child_tasks(child, start, stop, history)
            for child, (start, stop) in enumerate(zip(starts, stops, strict=True))
        ]
        return heapq.merge(*streams)

    def _child_tasks(
        self, child: int, start: int, stop: int, history: History
    ) -> Iterator[tuple[int, Task]]:
        size = self.children[child][1].total
        while start < stop:
            epoch, position = divmod(start, size)
            end = min(size, position + stop - start)
            for task in self.part(epoch, position, end, child).tasks():
                yield history.position_of(child, epoch * size + task.need), task
            start += end - position


class _MixtureReader:
    """Reads samples of a mixture at ascending positions of an epoch."""

    def __init__(
        self,
        engine: MixtureEngine,
        history: History,
        tasks: Iterator[tuple[int, Task]],
        feed: Feed,
        state: LoaderState,
    ) -> None:
        self._engine = engine
        self._history = history
        self._tasks = tasks
        self._next = next(tasks, None)
        self._feed = feed
        self._base = state.epoch * engine.total
        self._cursors: dict[tuple[int, int], Cursor] = {}
        self._start = history.counts(self._base + state.position)
        self._sizes = np.array([order.total for _, order in engine.children], np.int64)

    @property
    def is_done(self) -> bool:
        """Whether all windows of the pass were taken."""
        return self._next is None

    def fetch(self, positions: NDArray[np.int64]) -> Fetched:
        """Return the samples at positions, in memory of their own."""
        stream = positions + self._base
        # The stream numbers the samples of all epochs. ``own`` numbers the samples of each set
        # likewise, so its epoch follows by division.
        children, own = self._history.place(stream)
        epochs = own // self._sizes[children]
        targets: Targets | None = None
        end, error = 0, None
        # Within one piece every set is in one epoch, so one cursor per set is enough.
        for start, stop in pairwise(_cuts(children, epochs)):
            part = slice(start, stop)
            wanted = {
                (child, int(epochs[part][children[part] == child][0])): start
                + np.flatnonzero(children[part] == child)
                for child in np.unique(children[part]).tolist()
            }
            self._load(wanted, own, int(stream[stop - 1]))
            end, error = stop, None
            for key, rows in wanted.items():
                fetched = self._cursors[key].end()
                if good := fetched.stop:
                    columns = fetched.columns
                    targets = targets or array_targets(columns, len(positions), FreshMemory())
                    targets.put(columns, rows[:good], slice(0, good))
                if fetched.error is not None and rows[fetched.stop] < end:
                    end, error = int(rows[fetched.stop]), fetched.error
            if error is not None:
                break
        return Fetched({} if targets is None else targets.columns(end), 0, end, error)

    def _load(
        self, wanted: dict[tuple[int, int], NDArray[np.int64]], own: NDArray[np.int64], last: int
    ) -> None:
        """Let every cursor read its samples up to a position of the stream."""
        # ``wanted`` has keys (set, epoch), so this maps each set to its epoch. Cursors of earlier
        # epochs are finished.
        newest = dict(wanted.keys())
        self._cursors = {
            key: cursor for key, cursor in self._cursors.items() if key[1] >= newest.get(key[0], 0)
        }
        for key in wanted.keys() | self._cursors.keys():
            rows = wanted.get(key)
            # A cursor without samples here still steps: its windows come out of the same queue.
            mine = _NONE if rows is None else own[rows] % self._sizes[key[0]]
            self._cursor(key).begin(mine)
        while self._next is not None and self._next[0] <= last:
            task = self._next[1]
            self._cursor((task.child, task.epoch)).step()
            self._next = next(self._tasks, None)

    def _cursor(self, key: tuple[int, int]) -> Cursor:
        if key not in self._cursors:
            child, epoch = key
            size = int(self._sizes[child])
            first_epoch, position = divmod(self._start[child], size)
            # Only the epoch in which the pass begins is entered in the middle.
            start = position if epoch == first_epoch else 0
            part = self._engine.part(epoch, start, size, child)
            self._cursors[key] = Cursor(part, self._feed, self._engine.blocks)
        return self._cursors[key]


_NONE: Final = np.zeros(0, np.int64)


def _cuts(children: NDArray[np.int64], epochs: NDArray[np.int64]) -> list[int]:
    """Return the cuts of a fetch, with both ends, between which every set stays in one epoch."""
    cuts = {0, len(children)}
    for child in np.unique(children).tolist():
        rows = np.flatnonzero(children == child)
        # A cut before every row whose set begins another epoch.
        cuts.update(rows[1:][np.diff(epochs[rows]) != 0].tolist())
    return sorted(cuts)

"""One pass over an epoch: windows in, batches out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from trainfeed.loader.chunks import MISSING
from trainfeed.loader.columns import Columns, Ragged, Rows, Scattered, Targets, joined, targets_for
from trainfeed.loader.memory import LentMemory, LentPool
from trainfeed.loader.order import BatchCut, EpochPart, Tail
from trainfeed.loader.state import Batch, LoaderState, LoaderStats
from trainfeed.loader.windows import Feed, Window

# --- Walks through an epoch: takes windows as positions need them, and copies their samples


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


# --- Reads the one lane of a share from start to end; batches are views of windows


class LaneReader:
    """Reads samples in the order of the windows.

    Args:
        part: The part of the epoch to read; its positions belong to one lane.
        feed: Loads the windows of ``part.tasks()``.
    """

    def __init__(self, part: EpochPart, feed: Feed) -> None:
        self._feed = feed
        self._tasks = part.tasks()
        self._next = next(self._tasks, None)
        self._window = _EMPTY
        # Number of samples of the window that were taken.
        self._num_taken = 0
        self._error: BaseException | None = None

    def take(self, num_samples: int) -> Fetched:
        """Return the next samples: views if they are in one window, otherwise copies."""
        start, stop = self._num_taken, self._num_taken + num_samples
        if stop <= self._window.num_samples:
            self._num_taken = stop
            return Fetched(self._window.columns, start, stop, None)
        return self._take_pieces(num_samples)

    @property
    def is_done(self) -> bool:
        """Whether all windows of the pass were taken."""
        return self._next is None

    def _take_pieces(self, num_samples: int) -> Fetched:
        pieces: list[tuple[Columns, slice, int]] = []
        missing = num_samples
        while missing and self._replenish():
            start = self._num_taken
            count = min(missing, self._window.num_samples - start)
            pieces.append((self._window.columns, slice(start, start + count), count))
            self._num_taken += count
            missing -= count
        error = self._error if missing else None
        if len(pieces) == 1:
            columns, rows, _ = pieces[0]
            return Fetched(columns, rows.start, rows.stop, error)
        return Fetched(joined(pieces) if pieces else {}, 0, num_samples - missing, error)

    def _replenish(self) -> bool:
        """Take the next window if this one is used up; return whether samples are left."""
        while self._num_taken >= self._window.num_samples:
            self._error = self._error or self._window.error
            if self._error is not None or self._next is None:
                return False
            # Dropped first: the feed may need the memory of this window for the next one.
            self._window, self._num_taken = _EMPTY, 0
            try:
                self._window = self._feed.next()
            except Exception as error:  # noqa: BLE001 - raised after the samples before it
                self._error = error
                return False
            self._next = next(self._tasks, None)
        return True


_EMPTY: Final = Window({}, 0)


# --- One pass over an epoch: windows in, batches out

# Batches of small samples are put together in blocks: a step per lane and field costs as much for
# 8 rows as for 100. Larger blocks than this gain nothing and exceed the cache.
_BLOCK_BYTES: Final = 2 << 20
_BLOCK_ROWS: Final = 4096
# Samples of fixed size are only noted in a block, by address, and copied batch by batch. Their
# windows are held meanwhile.
_NOTED_BYTES: Final = 8 << 20
_NOTED_ROWS: Final = 16384
# Values of ragged fields are noted, too. The buffers are held meanwhile, so a block may hold as
# many windows as threads load ahead. Mapped buffers take no memory, so they get a larger limit.
_RUNS_BYTES: Final = 32 << 20
_MAPPED_BYTES: Final = 64 << 20


class WindowReader(Protocol):
    """Reads samples of an epoch at ascending positions."""

    def fetch(self, positions: NDArray[np.int64]) -> Fetched:
        """Return the samples at positions, in memory of their own."""

    @property
    def is_done(self) -> bool:
        """Whether all windows of the pass were taken."""


@runtime_checkable
class RunReader(Protocol):
    """Reads the samples of a share in order, without a choice of positions."""

    def take(self, num_samples: int) -> Fetched:
        """Return the next samples, as views where that is possible."""

    @property
    def is_done(self) -> bool:
        """Whether all windows of the pass were taken."""


@dataclass(frozen=True)
class Pass:
    """The batches of one rank from a position to the end of an epoch, or to a stretch left out.

    Attributes:
        cut: Which positions make up which batch.
        state: State of the loader at the start.
        after: State of the loader after the last batch.
        sample_bytes: Average bytes of a sample.
        pad: Reads samples at any positions of the epoch, to fill the last batch.
        copy: Whether batches get memory of their own.
        stats: The counters of the loader.
    """

    cut: BatchCut
    state: LoaderState
    after: LoaderState
    sample_bytes: float
    pad: Callable[[NDArray[np.int64]], Columns]
    copy: bool
    stats: LoaderStats

    def batches(self, reader: WindowReader | RunReader) -> Iterator[Batch]:
        """Yield the batches; the error of a sample is raised after the batches before it."""
        if isinstance(reader, RunReader):
            return self._one_by_one(reader)
        return self._in_blocks(reader)

    def _one_by_one(self, reader: RunReader) -> Iterator[Batch]:
        last, size = self.cut.num_batches - 1, self.cut.batch_size
        for number in range(last):
            fetched = reader.take(size)
            if fetched.error is not None:
                raise fetched.error
            yield self._plain(fetched.columns, fetched.start, fetched.stop, number)
        wanted = self._count(last, last + 1)
        fetched = reader.take(wanted) if wanted else _NOTHING
        if fetched.error is not None:
            raise fetched.error
        yield self._last(fetched.columns, fetched.start, fetched.stop)

    def _in_blocks(self, reader: WindowReader) -> Iterator[Batch]:
        # Blocks start with one batch and double, so that the first batch comes early.
        first, step = 0, 1
        while first < self.cut.num_batches:
            start_s, waited_s = time.perf_counter(), self.stats.wait_s
            last = min(first + step, self.cut.num_batches)
            positions = self._positions(first, last)
            fetched = reader.fetch(positions) if len(positions) else _NOTHING
            waited_s = self.stats.wait_s - waited_s
            self.stats.count_assembly(max(0.0, time.perf_counter() - start_s - waited_s))
            yield from self._cut(fetched, first, last)
            if fetched.error is not None:
                raise fetched.error
            first, step = last, min(2 * step, self._batches_per_block(fetched.columns))

    def state_after(self, num_batches: int) -> LoaderState:
        """Return the state after ``num_batches``; after the last batch, the state that follows."""
        if num_batches >= self.cut.num_batches:
            return self.after
        return replace(self.state, position=self.cut.position_after(num_batches))

    def _cut(self, fetched: Fetched, first: int, last: int) -> Iterator[Batch]:
        """Yield the complete batches of a block."""
        end, size = fetched.start, self.cut.batch_size
        last_of_all = self.cut.num_batches - 1
        for number in range(first, last):
            start = end
            end += size if number < last_of_all else self._count(number, number + 1)
            if end > fetched.stop:
                return
            if number == last_of_all:
                yield self._last(fetched.columns, start, end)
            else:
                yield self._plain(fetched.columns, start, end, number)

    def _plain(
        self, columns: Columns, start: int, stop: int, number: int, num_padded: int = 0
    ) -> Batch:
        fields, num_bytes = {}, 0
        for name, column in columns.items():
            values = column.owned if self.copy else column.array
            array = fields[name] = values(start, stop)
            has_objects = array.dtype.kind == "O"
            num_bytes += column.num_bytes(start, stop) if has_objects else array.nbytes
        if MISSING in fields:
            fields, num_padded = self._without_missing(fields, num_padded)
            stop = start + len(next(iter(fields.values())))
        self.stats.count_batches(1, stop - start - num_padded, num_bytes)
        return Batch(fields, Point(self, number + 1), num_padded)

    def _without_missing(
        self, fields: dict[str, NDArray[Any]], num_padded: int
    ) -> tuple[dict[str, NDArray[Any]], int]:
        """Return the fields without missing rows, and the number of padded rows that are left."""
        kept = ~fields.pop(MISSING)
        if kept.all():
            return fields, num_padded
        num_own = len(kept) - num_padded
        self.stats.count("skipped_samples", num_own - int(kept[:num_own].sum()))
        return {name: array[kept] for name, array in fields.items()}, int(kept[num_own:].sum())

    def _last(self, columns: Columns, start: int, stop: int) -> Batch:
        """Return the last batch of the epoch, filled if the tail asks for that."""
        number, padding = self.cut.num_batches - 1, self.cut.padding()
        if len(padding):
            filling = self.pad(padding), slice(None), len(padding)
            own = (columns, slice(start, stop), stop - start)
            columns = joined([own, filling] if stop > start else [filling])
            num_padded = len(padding) if self.cut.tail is Tail.PAD else 0
            return self._plain(columns, 0, stop - start + len(padding), number, num_padded)
        if start == stop:
            # A batch without rows still needs fields of the right types: sample 0 provides them.
            columns = self.pad(np.zeros(1, np.int64))
        return self._plain(columns, start, stop, number)

    def _positions(self, first: int, last: int) -> NDArray[np.int64]:
        cut = self.cut
        start, stop = cut.position_after(first), min(cut.stop, cut.position_after(last))
        return cut.share.positions(start, stop)

    def _count(self, first: int, last: int) -> int:
        cut = self.cut
        start, stop = cut.position_after(first), min(cut.stop, cut.position_after(last))
        return cut.share.count(start, stop)

    def _batches_per_block(self, columns: Columns) -> int:
        runs = [column for column in columns.values() if isinstance(column, Ragged)]
        block_bytes, block_rows = _BLOCK_BYTES, _BLOCK_ROWS
        if isinstance(columns, Scattered):
            block_bytes, block_rows = _NOTED_BYTES, _NOTED_ROWS
        elif runs:
            is_mapped = all(column.is_mapped for column in runs)
            block_bytes = _MAPPED_BYTES if is_mapped else _RUNS_BYTES
        rows = min(block_rows, block_bytes / max(1.0, self.sample_bytes))
        return max(1, int(rows // self.cut.batch_size))


class Point(NamedTuple):
    """A point between two batches of a pass; keeping it costs two references.

    Attributes:
        a_pass: The pass.
        num_batches: Number of batches before the point.
    """

    a_pass: Pass
    num_batches: int

    def state(self) -> LoaderState:
        """Return the state of the loader at this point."""
        return self.a_pass.state_after(self.num_batches)


_NOTHING: Final = Fetched({}, 0, 0, None)

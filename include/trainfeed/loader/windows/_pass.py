"""One pass over an epoch: windows in, batches out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from trainfeed.loader.columns import Columns, Ragged, Scattered, joined
from trainfeed.loader.order import BatchCut, Tail
from trainfeed.loader.sources import MISSING
from trainfeed.loader.state import Batch, LoaderState, LoaderStats
from trainfeed.loader.windows._cursor import Fetched

__all__ = ["Pass", "Point", "RunReader", "WindowReader"]

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

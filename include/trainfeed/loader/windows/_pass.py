"""One pass over an epoch: windows in, batches out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from trainfeed.loader.columns import Columns, Ragged, joined
from trainfeed.loader.order import BatchCut, Tail
from trainfeed.loader.sources import MISSING
from trainfeed.loader.state import Batch, LoaderState, LoaderStats
from trainfeed.loader.windows._cursor import Fetched

__all__ = ["Pass", "Point", "RunReader", "WindowReader"]

# Batches of small samples are put together several at a time: the steps per lane and field cost
# as much for 8 rows as for 100. More than this gains nothing and leaves the cache.
_BLOCK_BYTES: Final = 2 << 20
_BLOCK_ROWS: Final = 4096
# Runs of bytes are only noted, and copied batch by batch. But what they are in is held meanwhile,
# unless it is mapped; then a block needs about as many windows as threads load ahead.
_RUNS_BYTES: Final = 32 << 20
_MAPPED_BYTES: Final = 64 << 20


class WindowReader(Protocol):
    """Reads samples of an epoch at ascending positions."""

    def fetch(self, positions: NDArray[np.int64]) -> Fetched:
        """Return the samples at positions, in owned memory."""


@runtime_checkable
class RunReader(Protocol):
    """Reads the samples of a share whose positions lie one after another."""

    def take(self, num_samples: int) -> Fetched:
        """Return the next samples, as views where that is possible."""


@dataclass(frozen=True)
class Pass:
    """The batches of one rank from a position to the end of an epoch, or to a stretch left out.

    Attributes:
        cut: Which positions make up which batch.
        state: The loader's at the start.
        after: The loader's after the last batch.
        sample_bytes: What a sample takes on average.
        pad: Reads samples at any positions of the epoch, to fill the last batch.
        copy: Whether batches get memory of their own.
        stats: Where to count.
    """

    cut: BatchCut
    state: LoaderState
    after: LoaderState
    sample_bytes: float
    pad: Callable[[NDArray[np.int64]], Columns]
    copy: bool
    stats: LoaderStats

    def batches(self, reader: WindowReader | RunReader) -> Iterator[Batch]:
        """Yield the batches; what keeps a sample from being read is raised in its place."""
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
        # Small ones first, so that the first batch comes early.
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
        """Return the state after so many batches; after the last one that of what follows."""
        if num_batches >= self.cut.num_batches:
            return self.after
        return replace(self.state, position=self.cut.position_after(num_batches))

    def _cut(self, fetched: Fetched, first: int, last: int) -> Iterator[Batch]:
        """Yield the batches of a block that are whole."""
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
            array = fields[name] = column.array(start, stop)
            has_objects = array.dtype.kind == "O"
            num_bytes += column.num_bytes(start, stop) if has_objects else array.nbytes
        if MISSING in fields:
            fields, num_padded = self._without_missing(fields, num_padded)
            stop = start + len(next(iter(fields.values())))
        if self.copy:
            fields = {name: _copied(array) for name, array in fields.items()}
        self.stats.count_batches(1, stop - start - num_padded, num_bytes)
        return Batch(fields, Point(self, number + 1), num_padded)

    def _without_missing(
        self, fields: dict[str, NDArray[Any]], num_padded: int
    ) -> tuple[dict[str, NDArray[Any]], int]:
        """Return the rows that are there, and how many of those only fill the batch."""
        kept = ~fields.pop(MISSING)
        if kept.all():
            return fields, num_padded
        num_own = len(kept) - num_padded
        self.stats.count("skipped_samples", num_own - int(kept[:num_own].sum()))
        return {name: array[kept] for name, array in fields.items()}, int(kept[num_own:].sum())

    def _last(self, columns: Columns, start: int, stop: int) -> Batch:
        """Return the last batch of the epoch, which may have to be filled."""
        number, padding = self.cut.num_batches - 1, self.cut.padding()
        if len(padding):
            filling = self.pad(padding), slice(None), len(padding)
            own = (columns, slice(start, stop), stop - start)
            columns = joined([own, filling] if stop > start else [filling])
            num_padded = len(padding) if self.cut.tail is Tail.PAD else 0
            return self._plain(columns, 0, stop - start + len(padding), number, num_padded)
        if start == stop:
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
        block_bytes = _BLOCK_BYTES
        if runs:
            is_mapped = all(column.is_mapped for column in runs)
            block_bytes = _MAPPED_BYTES if is_mapped else _RUNS_BYTES
        rows = min(_BLOCK_ROWS, block_bytes / max(1.0, self.sample_bytes))
        return max(1, int(rows // self.cut.batch_size))


class Point(NamedTuple):
    """A point of a pass, as cheap to keep as two references.

    Attributes:
        a_pass: The pass.
        num_batches: How many of its batches lie before the point.
    """

    a_pass: Pass
    num_batches: int

    def state(self) -> LoaderState:
        """Return the state of a loader that stands here."""
        return self.a_pass.state_after(self.num_batches)


_NOTHING: Final = Fetched({}, 0, 0, None)


def _copied(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array with memory of its own; objects have that anyway."""
    return array if array.dtype.kind == "O" else array.copy()

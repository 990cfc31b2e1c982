"""One pass over an epoch: windows in, batches out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from trainfeed.loader._batch import Batch, num_bytes
from trainfeed.loader._columns import Columns, put_rows, targets_for
from trainfeed.loader._cursor import Fetched
from trainfeed.loader._cut import BatchCut, Tail
from trainfeed.loader._state import LoaderState
from trainfeed.loader._stats import LoaderStats

__all__ = ["Pass", "Point", "SampleReader"]

# Batches of small samples are put together several at a time: the steps per lane and field cost
# as much for 8 rows as for 100. More than this gains nothing and leaves the cache.
_BLOCK_BYTES: Final = 2 << 20
_BLOCK_ROWS: Final = 4096


class SampleReader(Protocol):
    """Reads samples of an epoch at ascending positions.

    Attributes:
        takes: Whether ``take`` may be used: the positions of the share lie one after another.
    """

    @property
    def takes(self) -> bool: ...

    def fetch(self, positions: NDArray[np.int64]) -> Fetched:
        """Return the samples at positions, in owned memory."""

    def take(self, num_samples: int) -> Fetched:
        """Return the next samples, as views where that is possible."""


@dataclass(frozen=True)
class Pass:
    """The batches of one rank from a position to the end of an epoch.

    Attributes:
        cut: Which positions make up which batch.
        state: The loader's at the start.
        sample_bytes: What a sample takes on average.
        pad: Reads samples at any positions of the epoch, to fill the last batch.
        copy: Whether batches get memory of their own.
        stats: Where to count.
    """

    cut: BatchCut
    state: LoaderState
    sample_bytes: float
    pad: Callable[[NDArray[np.int64]], Columns]
    copy: bool
    stats: LoaderStats

    def batches(self, reader: SampleReader) -> Iterator[Batch]:
        """Yield the batches; what keeps a sample from being read is raised in its place."""
        return self._one_by_one(reader) if reader.takes else self._in_blocks(reader)

    def _one_by_one(self, reader: SampleReader) -> Iterator[Batch]:
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

    def _in_blocks(self, reader: SampleReader) -> Iterator[Batch]:
        step = self._batches_per_block()
        for first in range(0, self.cut.num_batches, step):
            start_s = time.perf_counter()
            last = min(first + step, self.cut.num_batches)
            positions = self._positions(first, last)
            fetched = reader.fetch(positions) if len(positions) else _NOTHING
            self.stats.count_assembly(time.perf_counter() - start_s)
            yield from self._cut(fetched, first, last)
            if fetched.error is not None:
                raise fetched.error

    def state_after(self, num_batches: int) -> LoaderState:
        """Return the state after so many batches; after the last one the next epoch starts."""
        if num_batches >= self.cut.num_batches:
            return replace(self.state, epoch=self.state.epoch + 1, position=0)
        return replace(self.state, position=self.cut.position_after(num_batches))

    def _cut(self, fetched: Fetched, first: int, last: int) -> Iterator[Batch]:
        """Yield the batches of a block that are whole."""
        end = fetched.start
        for number in range(first, last):
            start, end = end, end + self._count(number, number + 1)
            if end > fetched.stop:
                return
            if number == self.cut.num_batches - 1:
                yield self._last(fetched.columns, start, end)
            else:
                yield self._plain(fetched.columns, start, end, number)

    def _plain(
        self, columns: Columns, start: int, stop: int, number: int, num_padded: int = 0
    ) -> Batch:
        fields = {name: column.array(start, stop) for name, column in columns.items()}
        if self.copy:
            fields = {name: _copied(array) for name, array in fields.items()}
        batch = Batch(fields, Point(self, number + 1), num_padded)
        self.stats.count_batches(1, stop - start - num_padded, num_bytes(batch))
        return batch

    def _last(self, columns: Columns, start: int, stop: int) -> Batch:
        """Return the last batch of the epoch, which may have to be filled."""
        number, padding = self.cut.num_batches - 1, self.cut.padding()
        if len(padding):
            columns = _joined(columns, start, stop, self.pad(padding), len(padding))
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

    def _batches_per_block(self) -> int:
        rows = min(_BLOCK_ROWS, _BLOCK_BYTES / max(1.0, self.sample_bytes))
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


def _joined(columns: Columns, start: int, stop: int, more: Columns, num_more: int) -> Columns:
    """Return samples of ``columns``, and ``more`` behind them."""
    num_samples = stop - start
    total = num_samples + num_more
    targets = targets_for(more, total)
    put_rows(more, targets, slice(num_samples, total), slice(0, num_more))
    if num_samples:
        put_rows(columns, targets, slice(0, num_samples), slice(start, stop))
    return {name: target.column() for name, target in targets.items()}


def _copied(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array with memory of its own; objects have that anyway."""
    return array if array.dtype.kind == "O" else array.copy()

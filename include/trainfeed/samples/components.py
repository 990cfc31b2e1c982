"""Running statistics of numbers and of the components of a field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.samples.sketches import (
    FewValues,
    Histogram,
    Moments,
    Taken,
    TopValues,
    bin_names,
    bin_ranks,
    byte_counts,
    byte_values,
    loaded_top,
)

# --- Rows that wait until there are enough of them for one block


class WaitingRows:
    """Cuts rows into blocks of one size, whatever the sizes of the calls.

    So sums over blocks, which are rounded, depend only on the rows and their order.

    Args:
        dtype: Dtype of the rows.
        block_rows: Rows per block.
        row_shape: Shape of a row; empty for numbers.
    """

    def __init__(
        self, dtype: np.dtype[Any], block_rows: int, row_shape: tuple[int, ...] = ()
    ) -> None:
        self.block_rows = block_rows
        self._num_waiting = 0
        # Grows with the waiting rows: there may be many fields with few samples each.
        self._memory = np.empty((0, *row_shape), dtype)

    @property
    def waiting(self) -> NDArray[Any]:
        """The rows that wait; valid until the next call."""
        return self._memory[: self._num_waiting]

    @property
    def num_bytes(self) -> int:
        """Bytes of memory that are reserved for waiting rows."""
        return self._memory.nbytes

    def blocks(self, rows: NDArray[Any]) -> Iterator[NDArray[Any]]:
        """Yield the blocks that ``rows`` fill, and keep the rest; consume the iterator.

        Args:
            rows: Of the dtype, shape ``(n, *row_shape)``; the array is not kept. A block is valid
                until the next one.
        """
        while (end := self._num_waiting + len(rows)) >= self.block_rows:
            rest = self.block_rows - self._num_waiting
            block = rows[:rest]
            if self._num_waiting:
                self._reserve(self.block_rows)
                self._memory[self._num_waiting :] = block
                block = self._memory
            self._num_waiting, rows = 0, rows[rest:]
            yield block
        self._reserve(end)
        self._memory[self._num_waiting : end] = rows
        self._num_waiting = end

    def clear(self) -> None:
        """Forget the rows that wait."""
        self._num_waiting = 0

    def _reserve(self, num_rows: int) -> None:
        """Make the memory large enough for ``num_rows``."""
        if num_rows > len(self._memory):
            # Doubled up to a whole block, so that few copies are made.
            shape = (min(self.block_rows, 2 * num_rows), *self._memory.shape[1:])
            larger = np.empty(shape, self._memory.dtype)
            larger[: self._num_waiting] = self.waiting
            self._memory = larger


# --- Running statistics of numbers

# Large enough to make numpy's cost per call small, small enough for the cache of the processor.
BLOCK_VALUES: Final = 1 << 14


class Numbers:
    """Statistics of numbers of more than one byte; NaN and infinity are only counted.

    Args:
        dtype: Dtype of the numbers.
        sketches: Whether to compute a histogram.
        top: Whether to find frequent values as well; for integers only.
        block_values: Size of a block; numbers wait until a block is full.
    """

    def __init__(
        self,
        dtype: np.dtype[Any],
        *,
        sketches: bool,
        top: bool,
        block_values: int = BLOCK_VALUES,
    ) -> None:
        self._dtype = dtype
        self._rows = WaitingRows(dtype, block_values)
        wants_top = sketches and top and dtype.kind in "iu"
        self._taken = Taken(
            Moments(),
            0,
            Histogram(self._dtype) if sketches else None,
            TopValues() if wants_top else None,
        )

    @classmethod
    def of(cls, dtype: np.dtype[Any], taken: Taken) -> Numbers:
        """Return the statistics of numbers that were taken already, without frequent values."""
        numbers = cls(dtype, sketches=True, top=False)
        numbers._taken = taken
        return numbers

    def add(self, numbers: NDArray[Any]) -> None:
        """Add numbers of the dtype, shape ``(n,)``; the array is not kept."""
        for block in self._rows.blocks(numbers.view(self._dtype)):
            self._taken.take(block)

    def merge(self, other: Numbers) -> None:
        """Add the numbers of ``other``."""
        total = self._total()
        total.merge(other._total())
        self._taken = total
        self._rows.clear()

    def to_json(self) -> dict[str, Any]:
        """Return number, range, mean and standard deviation, and the sketches."""
        return self._total().to_json()

    def load(self, value: Mapping[str, Any]) -> None:
        """Load the values that ``to_json`` gave."""
        taken = self._taken
        taken.moments, taken.not_finite = Moments.from_json(value), int(value["not_finite"])
        if "histogram" not in value:
            taken.histogram = None
        elif taken.histogram is not None:
            taken.histogram.load(value["histogram"])
        taken.top = loaded_top(taken.top, value)

    def _total(self) -> Taken:
        """Return the sum of all blocks and waiting numbers; the stored sum itself if none wait."""
        waiting = self._rows.waiting
        if not len(waiting):
            return self._taken
        total = self._taken.copy()
        total.take(waiting)
        return total


class ByteNumbers:
    """Statistics of integers of one byte, computed from a count per value.

    So the result does not depend on the order, and takes a fraction of the time.

    Args:
        dtype: Dtype of the numbers; may be bool.
        sketches: Whether to report the histogram.
    """

    def __init__(self, dtype: np.dtype[Any], *, sketches: bool) -> None:
        self._dtype = np.dtype(np.uint8) if dtype.kind == "b" else dtype
        self._sketches = sketches
        self._counts = np.zeros(len(byte_values(self._dtype)), np.int64)
        # Moments of numbers that were loaded from JSON without a histogram.
        self._moments = Moments()

    @classmethod
    def of_counts(cls, dtype: np.dtype[Any], counts: NDArray[np.int64]) -> ByteNumbers:
        """Return the statistics for the counts of ``byte_values``, which are not kept."""
        numbers = cls(dtype, sketches=True)
        numbers._counts += counts
        return numbers

    def add(self, numbers: NDArray[Any]) -> None:
        """Add numbers of the dtype, shape ``(n,)``."""
        self._counts += byte_counts(np.ascontiguousarray(numbers).view(self._dtype))

    def merge(self, other: ByteNumbers) -> None:
        """Add the numbers of ``other``."""
        self._counts += other._counts
        self._moments = self._moments.merged(other._moments)
        self._sketches &= other._sketches

    def to_json(self) -> dict[str, Any]:
        """Return number, range, mean and standard deviation, histogram and frequent values."""
        moments = Moments.of_counts(byte_values(self._dtype), self._counts).merged(self._moments)
        histogram = None
        if self._sketches:
            histogram = Histogram(self._dtype)
            histogram.add_counts(self._counts)
        return Taken(moments, 0, histogram, None).to_json()

    def load(self, value: Mapping[str, Any]) -> None:
        """Load the values that ``to_json`` gave."""
        if "histogram" in value:
            for number, count in value["histogram"]:
                # Index 0 is the smallest value of the dtype, -128 for int8.
                self._counts[int(number) - byte_values(self._dtype)[0]] += int(count)
        else:
            self._sketches = False
            self._moments = Moments.from_json(value)


# --- Statistics of the components of a field whose values have one byte: a count per value

_NUM_BYTES: Final = 256
_BLOCK_VALUES: Final = 1 << 16


class ByteComponents:
    """Statistics of every component of a field of fixed shape, of one byte each.

    Args:
        dtype: Dtype of the values; may be bool.
        num: Number of components.
    """

    def __init__(self, dtype: np.dtype[Any], num: int) -> None:
        self._dtype = np.dtype(np.uint8) if dtype.kind == "b" else dtype
        self._num = num
        # Rows wait, because samples that come one by one would each need a table of counts.
        self._rows = WaitingRows(self._dtype, _BLOCK_VALUES // num, (num,))
        self._counts = np.zeros((num, _NUM_BYTES), np.int64)

    def add(self, numbers: NDArray[Any]) -> None:
        """Add the values of whole samples, of any shape; the array is not kept."""
        rows = np.ascontiguousarray(numbers).view(self._dtype).reshape(-1, self._num)
        for block in self._rows.blocks(rows):
            self._counts += self._counted(block)

    def merge(self, other: ByteComponents) -> None:
        """Add the components of ``other``, which does not change."""
        self._counts = self._total() + other._total()
        self._rows.clear()

    def to_json(self) -> dict[str, Any]:
        """Return the statistics of all values as one, and of the components one by one."""
        parts = [ByteNumbers.of_counts(self._dtype, row) for row in self._total()]
        return self.whole().to_json() | {"components": [_entry(part) for part in parts]}

    def whole(self) -> ByteNumbers:
        """Return the statistics of all values, without those of components."""
        return ByteNumbers.of_counts(self._dtype, self._total().sum(axis=0))

    def load(self, value: Mapping[str, Any]) -> None:
        """Load the values that ``to_json`` gave."""
        lowest = int(byte_values(self._dtype)[0])
        for counts, entry in zip(self._counts, value["components"], strict=True):
            for number, count in entry["histogram"]:
                counts[int(number) - lowest] += int(count)

    def _total(self) -> NDArray[np.int64]:
        """Return the counts of all rows, those that wait included."""
        waiting = self._rows.waiting
        return self._counts + self._counted(waiting) if len(waiting) else self._counts

    def _counted(self, block: NDArray[Any]) -> NDArray[np.int64]:
        keys = block.view(np.uint8) + np.arange(self._num) * _NUM_BYTES
        counts = np.bincount(keys.reshape(-1), minlength=self._num * _NUM_BYTES)
        counts = counts.reshape(self._num, _NUM_BYTES)
        # As unsigned bytes, negative numbers come after the others: rotate them to the front.
        return counts if self._dtype.kind == "u" else np.roll(counts, _NUM_BYTES // 2, axis=1)


def _entry(numbers: ByteNumbers) -> dict[str, Any]:
    names = ("values", "not_finite", "min", "max", "mean", "std", "histogram")
    entry = numbers.to_json()
    return {name: entry[name] for name in names}


# --- The histograms of all components of a field in one pair of arrays

_NUM_BINS: Final = 1 << 15


class ComponentBins:
    """Counts of finite numbers in the bins of ``Histogram``, for each component.

    Args:
        num: Number of components.
    """

    def __init__(self, num: int) -> None:
        self._num = num
        # Component and rank of the filled bins as one number, ascending, and their counts. The
        # arrays are replaced, never changed, so copies can share them.
        self._keys = np.empty(0, np.int64)
        self._counts = np.empty(0, np.int64)

    def add(self, rows: Sequence[NDArray[np.float64]]) -> None:
        """Count the finite numbers of each component, shape ``(n,)`` each."""
        keys, counts = [], []
        for number, row in enumerate(rows):
            ranks, found = _counted(bin_ranks(row))
            keys.append(ranks + number * _NUM_BINS)
            counts.append(found)
        self._take(np.concatenate(keys), np.concatenate(counts))

    def merge(self, other: ComponentBins) -> None:
        """Add the counts of ``other``."""
        self._take(other._keys, other._counts)

    def to_json(self) -> list[list[list[Any]]]:
        """Return what ``Histogram.to_json`` returns, for each component."""
        names = bin_names(self._keys & (_NUM_BINS - 1)).tolist()
        bins = [list(pair) for pair in zip(names, self._counts.tolist(), strict=True)]
        ends = np.searchsorted(self._keys, np.arange(self._num + 1) * _NUM_BINS).tolist()
        return [bins[start:end] for start, end in pairwise(ends)]

    def total(self) -> list[list[Any]]:
        """Return what ``Histogram.to_json`` returns for the numbers of all components."""
        ranks = self._keys & (_NUM_BINS - 1)
        filled, places = np.unique(ranks, return_inverse=True)
        counts = np.zeros(len(filled), np.int64)
        np.add.at(counts, places, self._counts)
        return [list(b) for b in zip(bin_names(filled).tolist(), counts.tolist(), strict=True)]

    def load(self, histograms: Sequence[Sequence[Sequence[Any]]]) -> None:
        """Add the counts that ``to_json`` gave."""
        for number, bins in enumerate(histograms):
            columns = np.array(bins, np.float64).reshape(-1, 2)
            keys = bin_ranks(columns[:, 0].copy()).astype(np.int64) + number * _NUM_BINS
            order = np.argsort(keys, kind="stable")
            self._take(*_runs(keys[order], columns[order, 1].astype(np.int64)))

    def copy(self) -> ComponentBins:
        """Return an independent copy."""
        other = ComponentBins(self._num)
        other.merge(self)
        return other

    def _take(self, keys: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        """Add counts of filled bins, ascending by key."""
        if not len(self._keys):
            self._keys, self._counts = keys, counts
        elif np.array_equal(keys, self._keys):
            self._counts = self._counts + counts
        else:
            both = np.concatenate([self._keys, keys])
            order = np.argsort(both, kind="stable")
            self._keys, self._counts = _runs(
                both[order], np.concatenate([self._counts, counts])[order]
            )


def _counted(ranks: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the ranks that occur, ascending, and their counts."""
    if not len(ranks):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    lowest = int(ranks.min())
    table = np.bincount(ranks - lowest)
    filled = np.flatnonzero(table != 0)
    return filled + lowest, table[filled]


def _runs(
    keys: NDArray[np.int64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the different keys of an ascending array, and the sum of the counts of each."""
    if not len(keys):
        return keys, counts
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    return keys[starts], np.add.reduceat(counts, starts)


# --- Statistics of the components of a field: one distribution for each place in its shape


class _Counted:
    """What is known of the components without the rows that wait.

    Args:
        num: Number of components.
        is_whole: Whether the values are integers, which have frequent values.
    """

    def __init__(self, num: int, *, is_whole: bool) -> None:
        self.moments = [Moments()] * num
        self.not_finite = [0] * num
        self.bins = ComponentBins(num)
        self.few = FewValues(num) if is_whole else None

    def take(self, block: NDArray[Any]) -> None:
        """Add rows, shape ``(n, num)`` with ``n`` from 1 on."""
        rows = np.ascontiguousarray(block.T)
        # A signalling NaN of a narrower type would be a warning in the log of the build.
        with np.errstate(invalid="ignore"):
            floats = rows.astype(np.float64, copy=False)
        if block.dtype.kind == "f" and not (is_finite := np.isfinite(floats)).all():
            finite = [row[there] for row, there in zip(rows, is_finite, strict=True)]
            doubles = [row[there] for row, there in zip(floats, is_finite, strict=True)]
            self.bins.add(doubles)
            self._extend([Moments.of(*both) for both in zip(finite, doubles, strict=True)])
            gone = (rows.shape[1] - is_finite.sum(axis=1)).tolist()
            self.not_finite = [a + b for a, b in zip(self.not_finite, gone, strict=True)]
            return
        self.bins.add(floats)  # type: ignore[arg-type]
        self._extend(Moments.of_rows(rows, floats))
        if self.few is not None:
            self.few.add(rows)

    def merge(self, other: _Counted) -> None:
        """Add the components of ``other``."""
        self._extend(other.moments)
        self.not_finite = [a + b for a, b in zip(self.not_finite, other.not_finite, strict=True)]
        self.bins.merge(other.bins)
        if self.few is not None and other.few is not None:
            self.few.merge(other.few)

    def copy(self) -> _Counted:
        """Return an independent copy."""
        other = _Counted(len(self.moments), is_whole=self.few is not None)
        other.merge(self)
        return other

    def _extend(self, moments: Sequence[Moments]) -> None:
        pairs = zip(self.moments, moments, strict=True)
        self.moments = [mine.merged(more) for mine, more in pairs]


class Components:
    """Statistics of every component of a field of fixed shape, of more than one byte each.

    Args:
        dtype: Dtype of the values.
        num: Number of components.
        block_rows: Rows per block; they wait until a block is full. Small blocks cost more per
            row, because some steps are taken once per component and block.
    """

    def __init__(self, dtype: np.dtype[Any], num: int, *, block_rows: int) -> None:
        self._dtype, self._num = dtype, num
        self._rows = WaitingRows(dtype, block_rows, (num,))
        self._counted = _Counted(num, is_whole=dtype.kind in "iu")

    def add(self, numbers: NDArray[Any]) -> None:
        """Add the values of whole samples, of any shape; the array is not kept."""
        for block in self._rows.blocks(numbers.view(self._dtype).reshape(-1, self._num)):
            self._counted.take(block)

    def merge(self, other: Components) -> None:
        """Add the components of ``other``, which does not change."""
        total = self._total()
        total.merge(other._total())
        self._counted = total
        self._rows.clear()

    def to_json(self) -> dict[str, Any]:
        """Return the statistics of all values as one, and of the components one by one."""
        total = self._total()
        return _sum(self._dtype, total).to_json() | {"components": _entries(total)}

    def whole(self) -> Numbers:
        """Return the statistics of all values, without those of components."""
        return Numbers.of(self._dtype, _sum(self._dtype, self._total()))

    def load(self, value: Mapping[str, Any]) -> None:
        """Load the values that ``to_json`` gave."""
        entries, counted = value["components"], self._counted
        counted.moments = [Moments.from_json(entry) for entry in entries]
        counted.not_finite = [int(entry["not_finite"]) for entry in entries]
        counted.bins.load([entry["histogram"] for entry in entries])
        if counted.few is not None:
            counted.few.load([entry.get("top") for entry in entries])

    def _total(self) -> _Counted:
        """Return the sum of all blocks and waiting rows; the stored sum itself if none wait."""
        waiting = self._rows.waiting
        if not len(waiting):
            return self._counted
        total = self._counted.copy()
        total.take(waiting)
        return total


def _sum(dtype: np.dtype[Any], counted: _Counted) -> Taken:
    moments = Moments()
    for each in counted.moments:
        moments = moments.merged(each)
    histogram = Histogram(dtype)
    histogram.load(counted.bins.total())
    return Taken(moments, sum(counted.not_finite), histogram, None)


def _entries(counted: _Counted) -> list[dict[str, Any]]:
    tops = counted.few.to_json() if counted.few else [None] * len(counted.moments)
    parts = zip(counted.moments, counted.not_finite, counted.bins.to_json(), tops, strict=True)
    return [
        {
            **moments.to_json(),
            "not_finite": not_finite,
            "histogram": bins,
            **({} if top is None else {"top": top}),
        }
        for moments, not_finite, bins, top in parts
    ]

"""Running statistics of numbers, for each component of an item; a scalar is an item of one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from trainfeed.samples.sketches import (
    MAX_TOP,
    Bins,
    Moments,
    TopValues,
    byte_counts,
    byte_values,
    filled_bins,
    quantiles,
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
        if end > len(self._memory):
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
        num: Number of components of an item; 0 for statistics of all numbers only.
        sketches: Whether to compute histograms, and of integers frequent values.
        top: Whether to find frequent values without components as well.
        block_rows: Items of a block, or numbers without components; they wait until a block is
            full. Small blocks cost more per item, because some steps are taken once per component
            and block.
    """

    def __init__(
        self,
        dtype: np.dtype[Any],
        num: int = 0,
        *,
        sketches: bool = True,
        top: bool = False,
        block_rows: int = BLOCK_VALUES,
    ) -> None:
        self._dtype = dtype
        self.num_components = num
        self._rows = WaitingRows(dtype, block_rows, (num,) if num else ())
        top = sketches and dtype.kind in "iu" and (top or num > 0)
        self._summary = _Summary(num or 1, sketches=sketches, top=top, exact=num > 0)

    def add(self, numbers: NDArray[Any]) -> None:
        """Add the numbers of whole items, of any shape; the array is not kept."""
        rows = numbers.view(self._dtype)
        if self.num_components:
            rows = rows.reshape(-1, self.num_components)
        for block in self._rows.blocks(rows):
            self._summary.take(block)

    def merge(self, other: Numbers) -> None:
        """Add the numbers of ``other``, which has as many components and does not change."""
        total = self._total()
        total.merge(other._total())
        self._summary = total
        self._rows.clear()

    def to_json(self) -> dict[str, Any]:
        """Return the statistics of all numbers, and of the components one by one."""
        total = self._total()
        if not self.num_components:
            return total.to_json()
        return total.whole().to_json() | {"components": total.entries()}

    def whole(self) -> Numbers:
        """Return the statistics of all numbers, without those of components."""
        numbers = Numbers(self._dtype)
        numbers._summary = self._total().whole()
        return numbers

    def load(self, value: Mapping[str, Any]) -> None:
        """Load the values that ``to_json`` gave."""
        if not self.num_components:
            self._summary.load([value], sketches="histogram" in value)
            return
        # Tops of components are exact, and have no bound of an error.
        exact = {"top_error": 0, "top_skipped": 0}
        self._summary.load([{**entry, **exact} for entry in value["components"]], sketches=True)

    def _total(self) -> _Summary:
        """Return the sum of all blocks and waiting rows; the stored sum itself if none wait."""
        waiting = self._rows.waiting
        if not len(waiting):
            return self._summary
        total = self._summary.copy()
        total.take(waiting)
        return total


class _Summary:
    """Moments and sketches of each component, without the rows that wait.

    Args:
        num: Number of components.
        sketches: Whether to fill histograms.
        top: Whether to find frequent values.
        exact: Whether to have frequent values only where all counts are exact. A component of more
            than 64 different values has none, whatever their order: one that holds hashes or
            measurements costs nothing after its first block.
    """

    def __init__(self, num: int, *, sketches: bool, top: bool, exact: bool) -> None:
        self.moments = [Moments()] * num
        self.not_finite = [0] * num
        # None if not requested or unknown.
        self.bins = Bins(num) if sketches else None
        self.tops = [TopValues() if top else None for _ in range(num)]
        self._exact = exact

    def take(self, block: NDArray[Any]) -> None:
        """Add rows, shape ``(n, num)``, or ``(n,)`` of one component, with ``n`` from 1 on."""
        rows = np.ascontiguousarray(block.T).reshape(len(self.moments), -1)
        finite: Sequence[NDArray[Any]] = list(rows)
        if block.dtype.kind == "f" and not (is_finite := np.isfinite(rows)).all():
            finite = [row[there] for row, there in zip(rows, is_finite, strict=True)]
            counts = zip(self.not_finite, finite, strict=True)
            self.not_finite = [known + rows.shape[1] - len(row) for known, row in counts]
        self._take_finite(finite)
        self._count(rows)

    def merge(self, other: _Summary) -> None:
        """Add the components of ``other``."""
        self._extend(other.moments)
        self.not_finite = [a + b for a, b in zip(self.not_finite, other.not_finite, strict=True)]
        self.bins = _merged(self.bins, other.bins)
        self._keep_tops([_merged(*both) for both in zip(self.tops, other.tops, strict=True)])

    def copy(self) -> _Summary:
        """Return an independent copy."""
        other = _Summary(len(self.moments), sketches=True, top=True, exact=self._exact)
        other.merge(self)
        return other

    def whole(self) -> _Summary:
        """Return what is known of the numbers of all components together."""
        total = _Summary(1, sketches=False, top=False, exact=False)
        for number, moments in enumerate(self.moments):
            total.moments = [total.moments[0].merged(moments)]
            total.not_finite[0] += self.not_finite[number]
        total.bins = None if self.bins is None else self.bins.total()
        return total

    def load(self, entries: Sequence[Mapping[str, Any]], *, sketches: bool) -> None:
        """Load what ``entries`` or ``to_json`` gave; ``sketches`` says whether with histograms."""
        self.moments = [Moments.from_json(entry) for entry in entries]
        self.not_finite = [int(entry["not_finite"]) for entry in entries]
        if not sketches:
            self.bins = None
        elif self.bins is not None:
            self.bins.load([entry["histogram"] for entry in entries])
        self._keep_tops([_loaded(*both) for both in zip(self.tops, entries, strict=True)])

    def to_json(self) -> dict[str, Any]:
        """Return the statistics of a single component, with quantiles and frequent values."""
        (entry,), (moments,), (top,) = self.entries(), self.moments, self.tops
        if self.bins is not None:
            entry["quantiles"] = None
            if moments.values:
                entry["quantiles"] = self.bins.quantiles(moments.low, moments.high)
        return entry if top is None else entry | top.to_json()

    def entries(self) -> list[dict[str, Any]]:
        """Return moments, the number of other values, histogram and exact counts, one by one."""
        entries = list(map(_entry, self.moments, self.not_finite))
        if self.bins is not None:
            for entry, histogram in zip(entries, self.bins.to_json(), strict=True):
                entry["histogram"] = histogram
        for entry, top in zip(entries, self.tops, strict=True):
            if self._exact and top is not None:
                entry["top"] = top.to_json()["top"]
        return entries

    def _take_finite(self, rows: Iterable[NDArray[Any]]) -> None:
        """Add the finite numbers of each component, shape ``(n,)`` each."""
        moments, filled = [], []
        for row in rows:
            # One by one: the numbers of a component stay in the cache of the processor.
            floats = row.astype(np.float64, copy=False)
            moments.append(Moments.of(row, floats))
            if self.bins is not None:
                filled.append(filled_bins(floats))
        self._extend(moments)
        if self.bins is not None:
            self.bins.add(filled)

    def _count(self, rows: NDArray[Any]) -> None:
        """Add the integers of each component whose values are still counted."""
        counted = [number for number, top in enumerate(self.tops) if top is not None]
        if counted:
            for number, row in zip(counted, np.sort(rows[counted], axis=1), strict=True):
                self.tops[number].add_sorted(row)  # type: ignore[union-attr]
            self._keep_tops(self.tops)

    def _keep_tops(self, tops: list[TopValues | None]) -> None:
        self.tops = tops
        if self._exact:
            self.tops = [top if top is not None and not top.error else None for top in tops]

    def _extend(self, moments: Sequence[Moments]) -> None:
        pairs = zip(self.moments, moments, strict=True)
        self.moments = [mine.merged(more) for mine, more in pairs]


_Sketch = TypeVar("_Sketch", Bins, TopValues)


def _merged(mine: _Sketch | None, other: _Sketch | None) -> _Sketch | None:
    """Return ``mine`` with what ``other`` holds added; None if one of them is unknown."""
    if mine is None or other is None:
        return None
    mine.merge(other)
    return mine


def _loaded(top: TopValues | None, value: Mapping[str, Any]) -> TopValues | None:
    """Return ``top`` with the values of ``to_json``; None if not requested or unknown."""
    if top is None or "top" not in value:
        return None
    top.load(value)
    return top


def _entry(moments: Moments, not_finite: int) -> dict[str, Any]:
    return {"values": moments.values, "not_finite": not_finite} | moments.to_json()


# --- Statistics of numbers of one byte: a count per value

_NUM_BYTES: Final = 256
_BLOCK_BYTES: Final = 1 << 16


class ByteNumbers:
    """Statistics of integers of one byte, computed from a count per value.

    So the result does not depend on the order, and takes a fraction of the time.

    Args:
        dtype: Dtype of the numbers; may be bool.
        num: Number of components of an item; 0 for statistics of all numbers only.
        sketches: Whether to report histograms; always with components.
    """

    def __init__(self, dtype: np.dtype[Any], num: int = 0, *, sketches: bool = True) -> None:
        self._dtype = np.dtype(np.uint8) if dtype.kind == "b" else dtype
        self.num_components = num
        self._sketches = sketches
        # Rows of components wait, because samples that come one by one would each need a table of
        # counts.
        self._rows = WaitingRows(self._dtype, _BLOCK_BYTES // (num or 1), (num,))
        self._counts = np.zeros((num, _NUM_BYTES) if num else _NUM_BYTES, np.int64)
        # Moments of numbers that were loaded from JSON without a histogram.
        self._moments = Moments()

    def add(self, numbers: NDArray[Any]) -> None:
        """Add the numbers of whole items, of any shape; the array is not kept."""
        data = np.ascontiguousarray(numbers).view(self._dtype)
        if not self.num_components:
            self._counts += byte_counts(data)
            return
        for block in self._rows.blocks(data.reshape(-1, self.num_components)):
            self._counts += self._counted(block)

    def merge(self, other: ByteNumbers) -> None:
        """Add the numbers of ``other``, which has as many components and does not change."""
        self._counts = self._total() + other._total()
        self._rows.clear()
        self._moments = self._moments.merged(other._moments)
        self._sketches &= other._sketches

    def to_json(self) -> dict[str, Any]:
        """Return the statistics of all numbers, and of the components one by one."""
        total = self._total().reshape(-1, _NUM_BYTES)
        counts = total.sum(axis=0)
        entry = self._entry(counts, self._moments)
        if self._sketches:
            filled = np.flatnonzero(counts)
            entry["quantiles"] = None
            if len(filled):
                names = [name for name, _ in entry["histogram"]]
                entry["quantiles"] = quantiles(counts[filled], names.__getitem__)
            # The histogram is the exact table of values.
            top = sorted(entry["histogram"], key=lambda pair: (-pair[1], pair[0]))[:MAX_TOP]
            entry |= {"top": top, "top_error": 0, "top_skipped": 0}
        if self.num_components:
            entry["components"] = [self._entry(row, Moments()) for row in total]
        return entry

    def whole(self) -> ByteNumbers:
        """Return the statistics of all numbers, without those of components."""
        numbers = ByteNumbers(self._dtype)
        numbers._counts += self._total().sum(axis=0)
        return numbers

    def load(self, value: Mapping[str, Any]) -> None:
        """Load the values that ``to_json`` gave."""
        if not self.num_components and "histogram" not in value:
            self._sketches = False
            self._moments = Moments.from_json(value)
            return
        # The first value is the smallest one of the dtype, -128 for int8.
        lowest = int(byte_values(self._dtype)[0])
        entries = value["components"] if self.num_components else [value]
        rows = self._counts.reshape(-1, _NUM_BYTES)
        for counts, entry in zip(rows, entries, strict=True):
            for number, count in entry["histogram"]:
                counts[int(number) - lowest] += int(count)

    def _entry(self, counts: NDArray[np.int64], more: Moments) -> dict[str, Any]:
        """Return the moments of the counts and of ``more`` together, and the histogram."""
        values = byte_values(self._dtype)
        entry = _entry(Moments.of_counts(values, counts).merged(more), 0)
        if self._sketches:
            filled = np.flatnonzero(counts)
            pairs = zip(values[filled].tolist(), counts[filled].tolist(), strict=True)
            entry["histogram"] = [list(pair) for pair in pairs]
        return entry

    def _total(self) -> NDArray[np.int64]:
        """Return the counts of all rows, those that wait included."""
        waiting = self._rows.waiting
        return self._counts + self._counted(waiting) if len(waiting) else self._counts

    def _counted(self, block: NDArray[Any]) -> NDArray[np.int64]:
        num = self.num_components
        keys = block.view(np.uint8) + np.arange(num) * _NUM_BYTES
        counts = np.bincount(keys.reshape(-1), minlength=num * _NUM_BYTES)
        counts = counts.reshape(num, _NUM_BYTES)
        # As unsigned bytes, negative numbers come after the others: rotate them to the front.
        return counts if self._dtype.kind == "u" else np.roll(counts, _NUM_BYTES // 2, axis=1)

"""Statistics of the components of a field: one distribution for each place in its shape.

A shift of one component hardly shows in the statistics of a whole tensor. The statistics of the
field follow from those of its components, so that nothing is counted twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainfeed.samples.statistics._component_bins import ComponentBins
from trainfeed.samples.statistics._few_values import FewValues
from trainfeed.samples.statistics._histogram import Histogram
from trainfeed.samples.statistics._moments import Moments, Taken
from trainfeed.samples.statistics._numbers import Numbers
from trainfeed.samples.statistics._waiting_rows import WaitingRows

__all__ = ["Components"]


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

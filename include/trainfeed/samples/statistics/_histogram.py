"""How numbers are distributed, in bounded memory and whatever their order."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.samples.statistics._top_values import MAX_TOP

__all__ = ["Histogram", "byte_counts", "byte_values"]

# Of a float64, bins keep sign, exponent and three bits: each spans an eighth of a power of two.
_DROPPED_BITS: Final = 49
_NUM_BINS: Final = 1 << (64 - _DROPPED_BITS)
_NUM_BYTES: Final = 256
# What is counted at once, in pairs, and from how much on.
_COUNTED_BYTES: Final = 1 << 19
_MIN_PAIRED_BYTES: Final = 1 << 17
_SHARES: Final = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


def byte_values(dtype: np.dtype[Any]) -> NDArray[np.int64]:
    """Return all integers of a dtype of one byte, ascending."""
    return np.arange(_NUM_BYTES) + int(np.iinfo(dtype).min)


def byte_counts(numbers: NDArray[Any]) -> NDArray[np.int64]:
    """Return how often each of ``byte_values`` occurs, shape ``(256,)``.

    Args:
        numbers: Contiguous, of a dtype of one byte, shape ``(n,)``.
    """
    data = numbers.view(np.uint8)
    # Counting pairs takes half the steps, but a table of their own that must be worth it.
    num_paired = len(data) & ~1 if len(data) >= _MIN_PAIRED_BYTES else 0
    counts = np.bincount(data[num_paired:], minlength=_NUM_BYTES)
    for start in range(0, num_paired, _COUNTED_BYTES):
        pairs = data[start : min(start + _COUNTED_BYTES, num_paired)].view(np.uint16)
        table = np.bincount(pairs, minlength=_NUM_BYTES * _NUM_BYTES).reshape(_NUM_BYTES, -1)
        counts += table.sum(axis=0) + table.sum(axis=1)
    # As bytes, negative numbers follow the others.
    return counts if numbers.dtype.kind == "u" else np.roll(counts, _NUM_BYTES // 2)


class Histogram:
    """Counts of finite numbers of one dtype, in bins that do not depend on the numbers.

    Of dtypes of one byte every value has a bin. Of others a bin is named after its number next to
    zero, and reaches up to an eighth farther from it; integers up to 16 have bins of their own.

    Args:
        dtype: Of the numbers; not bool.
    """

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._is_exact = dtype.itemsize == 1
        self._lowest = int(byte_values(dtype)[0]) if self._is_exact else 0
        # Bins that have any, ascending, and how many. Most fields fill few of 32,768, and there
        # may be many fields. Neither array is ever changed: copies share them.
        self._keys = np.empty(0, np.int64)
        self._counts = np.empty(0, np.int64)

    def add(self, numbers: NDArray[np.float64]) -> None:
        """Take finite numbers of a dtype of more than one byte, shape ``(n,)``."""
        bits = numbers.view(np.uint64) >> np.uint64(_DROPPED_BITS)
        found = np.bincount(bits.view(np.int64), minlength=_NUM_BINS // 2 + 1)
        # Zero has one bin, whatever its sign. Nor do numbers next to zero have one below it: its
        # name, -0.0, would be zero's.
        found[0] += found[_NUM_BINS // 2]
        found[_NUM_BINS // 2] = 0
        self.add_counts(found)

    def add_counts(self, counts: NDArray[np.int64]) -> None:
        """Take numbers by their bins; of one byte, as ``byte_counts`` counts them."""
        keys = np.flatnonzero(counts)
        self._take(keys, counts[keys])

    def copy(self) -> Histogram:
        """Return the same, to be changed."""
        return copy.copy(self)

    def merge(self, other: Histogram) -> None:
        """Take what ``other`` has taken."""
        self._take(other._keys, other._counts)

    def to_json(self) -> list[list[Any]]:
        """Return names and counts of the bins that have any, ascending by name."""
        keys, counts = self._filled()
        return [
            [name, count] for name, count in zip(self._names(keys), counts.tolist(), strict=True)
        ]

    def load(self, bins: Sequence[Sequence[Any]]) -> None:
        """Take what ``to_json`` gave."""
        found: dict[int, int] = {}
        for name, count in bins:
            key = int(name) - self._lowest
            if not self._is_exact:
                key = int(np.float64(name).view(np.uint64)) >> _DROPPED_BITS
            if not 0 <= key < (_NUM_BYTES if self._is_exact else _NUM_BINS) or int(count) < 0:
                raise ValueError(f"no bin is called {name!r}")
            found[key] = found.get(key, 0) + int(count)
        filled = sorted((key, count) for key, count in found.items() if count)
        columns = np.array(filled, np.int64).reshape(-1, 2)
        self._take(columns[:, 0], columns[:, 1])

    def quantiles(self, low: Any, high: Any) -> dict[str, Any]:
        """Return below which numbers lie which shares of all; the middle of a bin stands for it.

        Args:
            low: The smallest number that was taken.
            high: The largest.
        """
        keys, counts = self._filled()
        ends = np.cumsum(counts)
        wanted = [math.ceil(share * int(ends[-1])) for share in _SHARES]
        found = keys[np.searchsorted(ends, wanted)]
        names = self._names(found)
        if not self._is_exact:
            names = [min(max(self._middle(int(key)), low), high) for key in found]
        return {str(share): name for share, name in zip(_SHARES, names, strict=True)}

    def top(self) -> list[list[Any]]:
        """Return the most frequent values and their counts, for dtypes of one byte."""
        bins = sorted(self.to_json(), key=lambda entry: (-entry[1], entry[0]))
        return bins[:MAX_TOP]

    @property
    def is_exact(self) -> bool:
        """Whether every value has a bin."""
        return self._is_exact

    def _filled(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the keys of bins that have any, ascending by value, and their counts."""
        keys, counts = self._keys, self._counts
        if self._is_exact:
            return keys, counts
        # Keys with the sign bit descend.
        first = int(np.searchsorted(keys, _NUM_BINS // 2))
        return (
            np.concatenate([keys[first:][::-1], keys[:first]]),
            np.concatenate([counts[first:][::-1], counts[:first]]),
        )

    def _take(self, keys: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        """Take numbers by bins that have any, ascending."""
        if np.array_equal(keys, self._keys):
            self._counts = self._counts + counts
            return
        both = np.union1d(self._keys, keys)
        total = np.zeros(len(both), np.int64)
        total[np.searchsorted(both, self._keys)] = self._counts
        total[np.searchsorted(both, keys)] += counts
        self._keys, self._counts = both, total

    def _names(self, keys: NDArray[np.int64]) -> list[Any]:
        if self._is_exact:
            return (keys + self._lowest).tolist()  # type: ignore[no-any-return]
        bits = keys.astype(np.uint64) << np.uint64(_DROPPED_BITS)
        return bits.view(np.float64).tolist()  # type: ignore[no-any-return]

    def _middle(self, key: int) -> float:
        if not key:
            return 0.0
        near, far = self._names(np.array([key, key + 1]))
        middle = near / 2 + far / 2
        return float(middle if math.isfinite(middle) else near)

"""The distribution of numbers, in bounded memory and independent of their order."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.samples.statistics._top_values import MAX_TOP

__all__ = ["Histogram", "bin_names", "bin_ranks", "byte_counts", "byte_values"]

# The key of a bin is the sign, the exponent and three bits of the fraction of a float64, so a bin
# covers an eighth of the range between two powers of two.
_DROPPED_BITS: Final = 49
_NUM_BINS: Final = 1 << (64 - _DROPPED_BITS)
_NUM_BYTES: Final = 256
# Bytes that are counted at once in pairs, and the least number of bytes for that way.
_COUNTED_BYTES: Final = 1 << 19
_MIN_PAIRED_BYTES: Final = 1 << 17
_SHARES: Final = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


def byte_values(dtype: np.dtype[Any]) -> NDArray[np.int64]:
    """Return all values of an integer dtype of one byte, ascending."""
    return np.arange(_NUM_BYTES) + int(np.iinfo(dtype).min)


def byte_counts(numbers: NDArray[Any]) -> NDArray[np.int64]:
    """Return the count of each of ``byte_values``, shape ``(256,)``.

    Args:
        numbers: Contiguous, of a dtype of one byte, shape ``(n,)``.
    """
    data = numbers.view(np.uint8)
    # Counting pairs of bytes takes half the steps, but needs a table of 65,536 counts, so it is
    # used for long inputs only. A row sum and a column sum of the table count both bytes of the
    # pairs.
    num_paired = len(data) & ~1 if len(data) >= _MIN_PAIRED_BYTES else 0
    counts = np.bincount(data[num_paired:], minlength=_NUM_BYTES)
    for start in range(0, num_paired, _COUNTED_BYTES):
        pairs = data[start : min(start + _COUNTED_BYTES, num_paired)].view(np.uint16)
        table = np.bincount(pairs, minlength=_NUM_BYTES * _NUM_BYTES).reshape(_NUM_BYTES, -1)
        counts += table.sum(axis=0) + table.sum(axis=1)
    # As unsigned bytes, negative numbers come after the others: rotate them to the front.
    return counts if numbers.dtype.kind == "u" else np.roll(counts, _NUM_BYTES // 2)


def bin_ranks(numbers: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return the rank of the bin of each finite number, from 0 to 32,767, ascending by number."""
    keys = (numbers.view(np.uint64) >> np.uint64(_DROPPED_BITS)).astype(np.int32)
    # Keys of negative numbers (sign bit set) descend; -0.0 is in the bin of 0.0.
    half = _NUM_BINS // 2
    return np.where(keys < half, keys + half, np.minimum(2 * half - keys, half))


def bin_names(ranks: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the name of each bin, its number nearest to zero, from ``bin_ranks``."""
    half = _NUM_BINS // 2
    keys = np.where(ranks < half, 2 * half - ranks, ranks - half)
    return (keys.astype(np.uint64) << np.uint64(_DROPPED_BITS)).view(np.float64)


class Histogram:
    """Counts of finite numbers of one dtype, in bins that do not depend on the numbers.

    In dtypes of one byte every value has its own bin. In other dtypes the name of a bin is its
    number nearest to zero, and the bin extends from there, away from zero, by at most an eighth of
    that number; integers up to 16 have their own bins.

    Args:
        dtype: The dtype of the numbers; not bool.
    """

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._is_exact = dtype.itemsize == 1
        self._lowest = int(byte_values(dtype)[0]) if self._is_exact else 0
        # Keys of the filled bins, ascending, and their counts. Most fields fill few of the 32,768
        # bins, and there may be many fields. The arrays are replaced, never changed, so copies can
        # share them.
        self._keys = np.empty(0, np.int64)
        self._counts = np.empty(0, np.int64)

    def add(self, numbers: NDArray[np.float64]) -> None:
        """Count finite numbers of a dtype of more than one byte, shape ``(n,)``."""
        bits = numbers.view(np.uint64) >> np.uint64(_DROPPED_BITS)
        found = np.bincount(bits.view(np.int64), minlength=_NUM_BINS // 2 + 1)
        # The bins of 0.0 and -0.0 are joined. The latter also holds the negative numbers next to
        # zero, because the name of their bin, -0.0, equals 0.0.
        found[0] += found[_NUM_BINS // 2]
        found[_NUM_BINS // 2] = 0
        self.add_counts(found)

    def add_counts(self, counts: NDArray[np.int64]) -> None:
        """Add counts per bin; for dtypes of one byte the result of ``byte_counts``."""
        keys = np.flatnonzero(counts)
        self._take(keys, counts[keys])

    def copy(self) -> Histogram:
        """Return an independent copy."""
        return copy.copy(self)

    def merge(self, other: Histogram) -> None:
        """Add the counts of ``other``."""
        self._take(other._keys, other._counts)

    def to_json(self) -> list[list[Any]]:
        """Return names and counts of the filled bins, ascending by name."""
        keys, counts = self._filled()
        return [
            [name, count] for name, count in zip(self._names(keys), counts.tolist(), strict=True)
        ]

    def load(self, bins: Sequence[Sequence[Any]]) -> None:
        """Add the counts that ``to_json`` gave."""
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
        """Return quantiles, as share → number; the middle of a bin stands for its numbers.

        Args:
            low: The smallest counted number.
            high: The largest counted number.
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
        """Whether every value has its own bin."""
        return self._is_exact

    def _filled(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the keys of the filled bins, ascending by value, and their counts."""
        keys, counts = self._keys, self._counts
        if self._is_exact:
            return keys, counts
        # For negative numbers (sign bit set) a larger key is a smaller number: reverse that part,
        # and put it first.
        first = int(np.searchsorted(keys, _NUM_BINS // 2))
        return (
            np.concatenate([keys[first:][::-1], keys[:first]]),
            np.concatenate([counts[first:][::-1], counts[:first]]),
        )

    def _take(self, keys: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        """Add counts of filled bins, ascending by key."""
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

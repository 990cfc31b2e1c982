"""How values are distributed, in bounded memory: a histogram of numbers, the most frequent values.

Both can be merged, and equal values in equal order give equal results. The histogram does not even
depend on the order.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Histogram", "TopValues", "byte_counts", "byte_values"]

# Of a float64, bins keep sign, exponent and three bits: each spans an eighth of a power of two.
_DROPPED_BITS: Final = 49
_NUM_BINS: Final = 1 << (64 - _DROPPED_BITS)
_NUM_BYTES: Final = 256
# What is counted at once, in pairs, and from how much on.
_COUNTED_BYTES: Final = 1 << 19
_MIN_PAIRED_BYTES: Final = 1 << 17
_SHARES: Final = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)

_MAX_TOP: Final = 64
_MAX_TEXT_BYTES: Final = 64
_TEXT_BLOCK: Final = 1 << 12


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
        self._counts = np.zeros(_NUM_BYTES if self._is_exact else _NUM_BINS, np.int64)

    def add(self, numbers: NDArray[Any]) -> None:
        """Take finite numbers of more than one byte, shape ``(n,)``."""
        # Zero has one bin, whatever its sign.
        floats = numbers.astype(np.float64) + 0.0
        keys = (floats.view(np.uint64) >> np.uint64(_DROPPED_BITS)).astype(np.int64)
        # Nor do numbers next to zero have one below it: its name, -0.0, would be zero's.
        keys[keys == _NUM_BINS // 2] = 0
        self._counts += np.bincount(keys, minlength=len(self._counts))

    def add_counts(self, counts: NDArray[np.int64]) -> None:
        """Take numbers of one byte, as ``byte_counts`` counts them."""
        self._counts += counts

    def copy(self) -> Histogram:
        """Return the same, to be changed."""
        return copy.deepcopy(self)

    def merge(self, other: Histogram) -> None:
        """Take what ``other`` has taken."""
        self._counts += other._counts

    def to_json(self) -> list[list[Any]]:
        """Return names and counts of the bins that have any, ascending by name."""
        keys, counts = self._filled()
        return [
            [name, count] for name, count in zip(self._names(keys), counts.tolist(), strict=True)
        ]

    def load(self, bins: Sequence[Sequence[Any]]) -> None:
        """Take what ``to_json`` gave."""
        for name, count in bins:
            key = int(name) - self._lowest
            if not self._is_exact:
                key = int(np.float64(name).view(np.uint64)) >> _DROPPED_BITS
            if not 0 <= key < len(self._counts) or int(count) < 0:
                raise ValueError(f"no bin is called {name!r}")
            self._counts[key] += int(count)

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
        return bins[:_MAX_TOP]

    @property
    def is_exact(self) -> bool:
        """Whether every value has a bin."""
        return self._is_exact

    def _filled(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the keys of bins that have any, ascending by value, and their counts."""
        keys = np.flatnonzero(self._counts)
        if not self._is_exact:
            # Keys with the sign bit descend.
            negative = keys >= _NUM_BINS // 2
            keys = np.concatenate([keys[negative][::-1], keys[~negative]])
        return keys, self._counts[keys]

    def _names(self, keys: NDArray[np.int64]) -> list[Any]:
        if self._is_exact:
            return (keys + self._lowest).tolist()  # type: ignore[no-any-return]
        bits = keys.astype(np.uint64) << np.uint64(_DROPPED_BITS)
        return bits.view(np.float64).tolist()  # type: ignore[no-any-return]

    def _middle(self, key: int) -> float:
        near, far = self._names(np.array([key, key + 1]))
        middle = near / 2 + far / 2
        return float(middle if math.isfinite(middle) else near)


class TopValues:
    """The most frequent of some values, with counts that are too low by a known number at most.

    Counts are exact while there are few different values. Where there are too many, all are lowered
    by the count of the first that has no place, and that is added to the error.

    Attributes:
        error: How much too low a count may be, and how frequent a value that is missing.
        num_skipped: How many values were too long to be counted.
        counts: Value to count, but for what was taken last.
    """

    def __init__(self) -> None:
        self.error = 0
        self.num_skipped = 0
        self.counts: dict[Any, int] = {}
        self._texts: list[bytes] = []

    def add_numbers(self, numbers: NDArray[Any]) -> None:
        """Take integers, shape ``(n,)``; many at once."""
        values, counts = np.unique(numbers, return_counts=True)
        if len(counts) > _MAX_TOP:
            cut = int(np.partition(counts, -_MAX_TOP - 1)[-_MAX_TOP - 1])
            kept = counts > cut
            values, counts = values[kept], counts[kept] - cut
            self.error += cut
        self._take(zip(values.tolist(), counts.tolist(), strict=True))

    def add_text(self, text: bytes) -> None:
        """Take one value of bytes, or of text in UTF-8."""
        if len(text) > _MAX_TEXT_BYTES:
            self.num_skipped += 1
            return
        self._texts.append(text)
        if len(self._texts) >= _TEXT_BLOCK:
            self._take_texts()

    def copy(self) -> TopValues:
        """Return the same, to be changed."""
        return copy.deepcopy(self)

    def merge(self, other: TopValues) -> None:
        """Take what ``other`` has taken."""
        self._take_texts()
        self.error += other.error
        self.num_skipped += other.num_skipped
        counts = Counter(other.counts)
        counts.update(other._texts)
        self._take(counts.items())

    def to_json(self) -> dict[str, Any]:
        """Return ``top``, values and counts, the most frequent first; bytes and text are in hex."""
        # As if nothing more came; what comes later is counted as if this had not been.
        other = TopValues()
        other.merge(self)
        ranked = sorted(other.counts.items(), key=lambda item: (-item[1], item[0]))
        top = [[v.hex() if isinstance(v, bytes) else v, count] for v, count in ranked]
        return {"top": top, "top_error": other.error, "top_skipped": other.num_skipped}

    def load(self, value: Mapping[str, Any]) -> None:
        """Take what ``to_json`` gave."""
        self.error, self.num_skipped = int(value["top_error"]), int(value["top_skipped"])
        self.counts = {
            bytes.fromhex(v) if isinstance(v, str) else int(v): int(n) for v, n in value["top"]
        }

    def _take_texts(self) -> None:
        texts, self._texts = self._texts, []
        self._take(Counter(texts).items())

    def _take(self, counts: Iterable[tuple[Hashable, int]] | Mapping[Any, int]) -> None:
        known = self.counts
        for value, count in counts:
            known[value] = known.get(value, 0) + count
        if len(known) > _MAX_TOP:
            cut = sorted(known.values(), reverse=True)[_MAX_TOP]
            self.counts = {value: count - cut for value, count in known.items() if count > cut}
            self.error += cut

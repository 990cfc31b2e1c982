"""Distributions in bounded memory: frequent values, histograms, moments."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

# --- The most frequent values, in bounded memory

MAX_TOP: Final = 64
_MAX_TEXT_BYTES: Final = 64
_TEXT_BLOCK: Final = 1 << 12


class TopValues:
    """The most frequent values, with counts that are too low by at most a known number.

    Counts are exact while there are few different values. When there are more than ``MAX_TOP``,
    the count of the first value beyond them is subtracted from all counts and added to ``error``;
    values without a count left are dropped.

    Attributes:
        error: Largest difference of a count from the true one, and of a dropped value from 0.
        num_skipped: Number of values that were too long to be counted.
        counts: Value → count, without texts that wait to be counted together.
    """

    def __init__(self) -> None:
        self.error = 0
        self.num_skipped = 0
        self.counts: dict[Any, int] = {}
        self._texts: list[bytes] = []

    def add_numbers(self, numbers: NDArray[Any]) -> None:
        """Add integers, shape ``(n,)``; best many at once."""
        values, counts = np.unique(numbers, return_counts=True)
        if len(counts) > MAX_TOP:
            # The count of the first value that does not fit: all counts are lowered by it, which
            # bounds the error (Misra-Gries).
            cut = int(np.partition(counts, -MAX_TOP - 1)[-MAX_TOP - 1])
            kept = counts > cut
            values, counts = values[kept], counts[kept] - cut
            self.error += cut
        self._take(zip(values.tolist(), counts.tolist(), strict=True))

    def add_text(self, text: bytes) -> None:
        """Add one value of bytes, or of text in UTF-8."""
        # Long texts are seldom repeated, and would take unbounded memory.
        if len(text) > _MAX_TEXT_BYTES:
            self.num_skipped += 1
            return
        self._texts.append(text)
        if len(self._texts) >= _TEXT_BLOCK:
            self._take_texts()

    def copy(self) -> TopValues:
        """Return an independent copy."""
        other = TopValues()
        other.error, other.num_skipped = self.error, self.num_skipped
        other.counts, other._texts = dict(self.counts), list(self._texts)
        return other

    def merge(self, other: TopValues) -> None:
        """Add the values of ``other``."""
        self._take_texts()
        self.error += other.error
        self.num_skipped += other.num_skipped
        counts = Counter(other.counts)
        counts.update(other._texts)
        self._take(counts.items())

    def to_json(self) -> dict[str, Any]:
        """Return ``top``, values with counts, most frequent first; bytes and text are in hex."""
        # Counted in a copy: waiting texts must stay waiting, so that later results do not depend
        # on this call.
        other = TopValues()
        other.merge(self)
        # Equal counts are ordered by value, so that equal data gives equal JSON.
        ranked = sorted(other.counts.items(), key=lambda item: (-item[1], item[0]))
        top = [[v.hex() if isinstance(v, bytes) else v, count] for v, count in ranked]
        return {"top": top, "top_error": other.error, "top_skipped": other.num_skipped}

    def load(self, value: Mapping[str, Any]) -> None:
        """Load the values that ``to_json`` gave."""
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
        if len(known) > MAX_TOP:
            cut = sorted(known.values(), reverse=True)[MAX_TOP]
            self.counts = {value: count - cut for value, count in known.items() if count > cut}
            self.error += cut


def merged_top(mine: TopValues | None, other: TopValues | None) -> TopValues | None:
    """Return ``mine`` with the values of ``other`` added; None if one of them is unknown."""
    if mine is None or other is None:
        return None
    mine.merge(other)
    return mine


def loaded_top(top: TopValues | None, value: Mapping[str, Any]) -> TopValues | None:
    """Return ``top`` with the values of ``to_json``; None if not requested or unknown."""
    if top is None or "top" not in value:
        return None
    top.load(value)
    return top


# --- The distribution of numbers, in bounded memory and independent of their order

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
    if keys.max(initial=0) < half:
        return keys + np.int32(half)
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


# --- Number, mean, spread and range of numbers, together with their sketches


@dataclass(frozen=True)
class Moments:
    """Number of values, mean, sum of squared distances from the mean, and range."""

    values: int = 0
    mean: float = 0.0
    squares: float = 0.0
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, numbers: NDArray[Any], floats: NDArray[np.float64]) -> Moments:
        """Return the moments of finite numbers, shape ``(n,)``, in their dtype and as float64."""
        if not numbers.size:
            return cls()
        with np.errstate(over="ignore", invalid="ignore"):
            # Distances from the mean are squared, and not the numbers: the difference of two large
            # sums would lose precision.
            mean = float(floats.mean())
            distances = floats - mean
            squares = float(np.square(distances, out=distances).sum())
        # Adding zero turns -0.0 into 0.0; which of the two min() returns depends on the processor.
        return cls(numbers.size, mean, squares, numbers.min().item() + 0, numbers.max().item() + 0)

    @classmethod
    def of_rows(cls, rows: NDArray[Any], floats: NDArray[np.float64]) -> list[Moments]:
        """Return ``of`` for each row of finite numbers, shape ``(k, n)`` with ``n`` from 1 on."""
        with np.errstate(over="ignore", invalid="ignore"):
            means = floats.mean(axis=1)
            distances = floats - means[:, np.newaxis]
            squares = np.square(distances, out=distances).sum(axis=1)
        columns = (means, squares, rows.min(axis=1), rows.max(axis=1))
        return [
            cls(rows.shape[1], mean, square, low + 0, high + 0)
            for mean, square, low, high in zip(*(c.tolist() for c in columns), strict=True)
        ]

    @classmethod
    def of_counts(cls, values: NDArray[np.int64], counts: NDArray[np.int64]) -> Moments:
        """Return the moments of ascending values with their counts."""
        if not (num := int(counts.sum())):
            return cls()
        # Whole numbers: the sum is exact.
        mean = int(values @ counts) / num
        squares = float((np.square(values - mean) * counts).sum())
        found = values[counts > 0]
        return cls(num, mean, squares, int(found[0]), int(found[-1]))

    def merged(self, other: Moments) -> Moments:
        """Return the moments of both sets of numbers together."""
        if self.low is None or self.high is None:
            return other
        if other.low is None or other.high is None:
            return self
        values = self.values + other.values
        # Chan's formula for two parts: the shift of the means adds n1 * n2 / n * distance².
        distance = other.mean - self.mean
        share = other.values / values
        return Moments(
            values,
            self.mean + distance * share,
            self.squares + other.squares + distance * distance * self.values * share,
            min(self.low, other.low),
            max(self.high, other.high),
        )

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Moments:
        """Return the moments that ``to_json`` gave as JSON values."""
        if not (values := int(value["values"])):
            return cls()
        known = value["mean"] is not None
        mean, std = (float(value["mean"]), float(value["std"])) if known else (math.inf, math.inf)
        return cls(values, mean, std * std * values, value["min"], value["max"])

    def to_json(self) -> dict[str, Any]:
        """Return number, range, mean and standard deviation; the last two are None on overflow."""
        mean = std = None
        if self.values and math.isfinite(self.squares):
            mean, std = self.mean, math.sqrt(self.squares / self.values)
        return {
            "values": self.values,
            "min": self.low,
            "max": self.high,
            "mean": mean,
            "std": std,
        }


@dataclass
class Taken:
    """Moments and sketches of numbers, which can be merged.

    Attributes:
        moments: Moments of the finite numbers.
        not_finite: Number of values that are NaN or infinite.
        histogram: Histogram of the finite numbers; None if not requested or unknown.
        top: Most frequent values of integers; None if not requested or unknown.
    """

    moments: Moments
    not_finite: int
    histogram: Histogram | None
    top: TopValues | None

    def take(self, block: NDArray[Any]) -> None:
        """Add numbers, shape ``(n,)``."""
        finite = block
        if block.dtype.kind == "f" and not (is_finite := np.isfinite(block)).all():
            finite = block[is_finite]
            self.not_finite += len(block) - len(finite)
        floats = finite.astype(np.float64, copy=False)
        self.moments = self.moments.merged(Moments.of(finite, floats))
        if self.histogram is not None:
            self.histogram.add(floats)
        if self.top is not None:
            self.top.add_numbers(finite)

    def copy(self) -> Taken:
        """Return an independent copy."""
        histogram = None if self.histogram is None else self.histogram.copy()
        top = None if self.top is None else self.top.copy()
        return Taken(self.moments, self.not_finite, histogram, top)

    def merge(self, other: Taken) -> None:
        """Add the numbers of ``other``."""
        self.moments = self.moments.merged(other.moments)
        self.not_finite += other.not_finite
        if self.histogram is not None and other.histogram is not None:
            self.histogram.merge(other.histogram)
        else:
            self.histogram = None
        self.top = merged_top(self.top, other.top)

    def to_json(self) -> dict[str, Any]:
        """Return the moments, the number of values that are not finite, and the sketches."""
        entries: dict[str, Any] = {"values": self.moments.values, "not_finite": self.not_finite}
        entries |= self.moments.to_json()
        if (histogram := self.histogram) is not None:
            entries["histogram"] = histogram.to_json()
            entries["quantiles"] = None
            if self.moments.values:
                entries["quantiles"] = histogram.quantiles(self.moments.low, self.moments.high)
            # With a bin per value the histogram is the exact table of values.
            if histogram.is_exact:
                entries |= {"top": histogram.top(), "top_error": 0, "top_skipped": 0}
        if self.top is not None:
            entries |= self.top.to_json()
        return entries


# --- Exact counts of values, as long as there are few different ones


class FewValues:
    """The count of every value of each component that has few different values.

    A component with more than ``MAX_TOP`` different values has no counts, whatever the order: a
    component that holds hashes or measurements costs nothing after its first block.

    Args:
        num: Number of components.
    """

    def __init__(self, num: int) -> None:
        self._counts: list[dict[int, int] | None] = [{} for _ in range(num)]

    def add(self, rows: NDArray[Any]) -> None:
        """Add the integers of each component, shape ``(num, n)``."""
        few = [number for number, counts in enumerate(self._counts) if counts is not None]
        if not few:
            return
        for number, row in zip(few, np.sort(rows[few], axis=1), strict=True):
            starts = np.flatnonzero(np.concatenate([[True], row[1:] != row[:-1]]))
            if len(starts) > MAX_TOP:
                self._counts[number] = None
                continue
            counts = np.diff(starts, append=len(row)).tolist()
            self._take(number, dict(zip(row[starts].tolist(), counts, strict=True)))

    def merge(self, other: FewValues) -> None:
        """Add the counts of ``other``."""
        for number, counts in enumerate(other._counts):
            self._take(number, counts)

    def copy(self) -> FewValues:
        """Return an independent copy."""
        other = FewValues(len(self._counts))
        other._counts = [None if each is None else dict(each) for each in self._counts]
        return other

    def to_json(self) -> list[list[list[int]] | None]:
        """Return values and counts of each component, most frequent first; None for too many."""
        return [
            None
            if counts is None
            else [list(pair) for pair in sorted(counts.items(), key=lambda p: (-p[1], p[0]))]
            for counts in self._counts
        ]

    def load(self, tops: Sequence[Any]) -> None:
        """Add the counts that ``to_json`` gave."""
        for number, top in enumerate(tops):
            self._take(number, None if top is None else dict(top))

    def _take(self, number: int, counts: dict[int, int] | None) -> None:
        known = self._counts[number]
        if known is None or counts is None:
            self._counts[number] = None
            return
        for value, count in counts.items():
            known[value] = known.get(value, 0) + count
        if len(known) > MAX_TOP:
            self._counts[number] = None

"""Distributions in bounded memory: frequent values, histograms, moments."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
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

    def add_sorted(self, numbers: NDArray[Any]) -> None:
        """Add integers, ascending, shape ``(n,)``; best many at once."""
        starts = np.flatnonzero(np.concatenate([[True], numbers[1:] != numbers[:-1]]))
        counts = np.diff(starts, append=len(numbers))
        if len(counts) > MAX_TOP:
            # The count of the first value that does not fit: all counts are lowered by it, which
            # bounds the error (Misra-Gries).
            cut = int(np.partition(counts, -MAX_TOP - 1)[-MAX_TOP - 1])
            kept = counts > cut
            starts, counts = starts[kept], counts[kept] - cut
            self.error += cut
        self._take(zip(numbers[starts].tolist(), counts.tolist(), strict=True))

    def add_text(self, text: bytes) -> None:
        """Add one value of bytes, or of text in UTF-8."""
        # Long texts are seldom repeated, and would take unbounded memory.
        if len(text) > _MAX_TEXT_BYTES:
            self.num_skipped += 1
            return
        self._texts.append(text)
        if len(self._texts) >= _TEXT_BLOCK:
            self._take_texts()

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
        self._take(
            {
                bytes.fromhex(v) if isinstance(v, str) else int(v): int(n) for v, n in value["top"]
            }.items()
        )

    def _take_texts(self) -> None:
        texts, self._texts = self._texts, []
        self._take(Counter(texts).items())

    def _take(self, counts: Iterable[tuple[Hashable, int]]) -> None:
        known = self.counts
        for value, count in counts:
            known[value] = known.get(value, 0) + count
        if len(known) > MAX_TOP:
            cut = sorted(known.values(), reverse=True)[MAX_TOP]
            self.counts = {value: count - cut for value, count in known.items() if count > cut}
            self.error += cut


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


def quantiles(counts: NDArray[np.int64], number: Callable[[int], Any]) -> dict[str, Any]:
    """Return quantiles, as share → number.

    Args:
        counts: How often each number is there, ascending by number, shape ``(n,)`` with ``n`` from
            1 on.
        number: From the place of a count to its number.
    """
    ends = np.cumsum(counts)
    wanted = [math.ceil(share * int(ends[-1])) for share in _SHARES]
    places = np.searchsorted(ends, wanted).tolist()
    return {str(share): number(place) for share, place in zip(_SHARES, places, strict=True)}


class Bins:
    """Counts of finite numbers in bins that do not depend on the numbers, for each component.

    The name of a bin is its number nearest to zero, and the bin extends from there, away from zero,
    by at most an eighth of that number; integers up to 16 have their own bins.

    Args:
        num: Number of components; 1 for numbers that are none.
    """

    def __init__(self, num: int) -> None:
        self._num = num
        # Component and rank of the filled bins as one number, ascending, and their counts. Most
        # fields fill few of the 32,768 bins, and there may be many fields. The arrays are replaced,
        # never changed, so copies can share them.
        self._keys = np.empty(0, np.int64)
        self._counts = np.empty(0, np.int64)

    def add(self, filled: Iterable[tuple[NDArray[np.int64], NDArray[np.int64]]]) -> None:
        """Add what ``filled_bins`` returns for the numbers of each component."""
        ranks, counts = zip(*filled, strict=True)
        keys = [each + number * _NUM_BINS for number, each in enumerate(ranks)]
        self._take(np.concatenate(keys), np.concatenate(counts))

    def merge(self, other: Bins) -> None:
        """Add the counts of ``other``."""
        self._take(other._keys, other._counts)

    def to_json(self) -> list[list[list[Any]]]:
        """Return names and counts of the filled bins of each component, ascending by name."""
        names = _bin_names(self._keys & (_NUM_BINS - 1)).tolist()
        bins = [list(pair) for pair in zip(names, self._counts.tolist(), strict=True)]
        ends = np.searchsorted(self._keys, np.arange(self._num + 1) * _NUM_BINS).tolist()
        return [bins[start:end] for start, end in pairwise(ends)]

    def total(self) -> Bins:
        """Return the counts of the numbers of all components together."""
        ranks = self._keys & (_NUM_BINS - 1)
        total = Bins(1)
        total._take(*_sums(ranks, self._counts))
        return total

    def load(self, histograms: Sequence[Sequence[Sequence[Any]]]) -> None:
        """Add the counts that ``to_json`` gave."""
        for number, bins in enumerate(histograms):
            columns = np.array(bins, np.float64).reshape(-1, 2)
            names, counts = columns[columns[:, 1] > 0].T.copy()
            ranks = _ranks(names.view(np.int64) >> _DROPPED_BITS)
            self._take(*_sums(ranks + number * _NUM_BINS, counts.astype(np.int64)))

    def quantiles(self, low: Any, high: Any) -> dict[str, Any]:
        """Return quantiles of the numbers of one component; the middle of a bin stands for them.

        Args:
            low: The smallest counted number.
            high: The largest counted number.
        """
        return quantiles(
            self._counts, lambda place: min(max(_middle(int(self._keys[place])), low), high)
        )

    def _take(self, keys: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        """Add counts of filled bins, ascending by key."""
        if not len(self._keys):
            self._keys, self._counts = keys, counts
        elif np.array_equal(keys, self._keys):
            self._counts = self._counts + counts
        else:
            self._keys, self._counts = _sums(
                np.concatenate([self._keys, keys]), np.concatenate([self._counts, counts])
            )


def filled_bins(numbers: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the ranks of the bins that finite numbers fill, ascending, and their counts."""
    if not len(numbers):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    # The sign stays the sign: keys of negative numbers are negative, and ascend away from zero.
    keys = numbers.view(np.int64) >> _DROPPED_BITS
    lowest = int(keys.min())
    keys -= lowest
    table = np.bincount(keys)
    filled = np.flatnonzero(table != 0)
    counts = table[filled]
    filled += lowest
    if lowest >= 0:
        return filled + _NUM_BINS // 2, counts
    return _sums(_ranks(filled), counts)


def _ranks(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rank of the bin of each key, from 0 to 32,767, ascending by number."""
    # The bin of -0.0 is that of 0.0, with the negative numbers next to zero.
    return np.where(keys < 0, -keys, keys + _NUM_BINS // 2)


def _bin_names(ranks: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the name of each bin, its number nearest to zero, from its rank."""
    half = _NUM_BINS // 2
    keys = np.where(ranks < half, 2 * half - ranks, ranks - half)
    return (keys.astype(np.uint64) << np.uint64(_DROPPED_BITS)).view(np.float64)


def _middle(rank: int) -> float:
    half = _NUM_BINS // 2
    if rank == half:
        return 0.0
    away = rank + 1 if rank > half else rank - 1
    near, far = _bin_names(np.array([rank, away])).tolist()
    middle = near / 2 + far / 2
    return float(middle if math.isfinite(middle) else near)


def _sums(
    keys: NDArray[np.int64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the different keys, ascending, and the sum of the counts of each."""
    if not len(keys):
        return keys, counts
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    return keys[starts], np.add.reduceat(counts[order], starts)


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
        """Return the moments of finite numbers, in their dtype and as float64, shape ``(n,)``."""
        if not len(numbers):
            return cls()
        with np.errstate(over="ignore", invalid="ignore"):
            # Distances from the mean are squared, and not the numbers: the difference of two large
            # sums would lose precision.
            mean = floats.mean()
            distances = floats - mean
            squares = np.square(distances, out=distances).sum()
        # Adding zero turns -0.0 into 0.0; which of the two min() returns depends on the processor.
        low, high = numbers.min().item() + 0, numbers.max().item() + 0
        return cls(len(numbers), float(mean), float(squares), low, high)

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

"""Several data sets in given proportions, and the set that each position is taken from."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainfeed.core.whole_numbers import whole
from trainfeed.errors import ConfigError
from trainfeed.loader.state import LARGEST, LARGEST_SEED, Weights

# --- The set that each position of a mixture is taken from, computed with whole numbers only

Weight: TypeAlias = float | int | Fraction

# The product of a position (up to 2^40) and a share must fit into 63 bits.
_MAX_TOTAL = 1 << 20


def shares_of(weights: Sequence[Weight]) -> tuple[int, ...]:
    """Return weights as the smallest whole numbers of the same proportions.

    Raises:
        ConfigError: A weight is negative or not a number, all weights are 0, or the whole numbers
            would be too large.
    """
    try:
        # Via text: 0.7 means seven tenths, not the nearest binary fraction.
        exact = [w if isinstance(w, Fraction) else Fraction(str(w)) for w in weights]
    except ValueError:
        raise ConfigError(f"expected numbers as weights, got {weights}") from None
    if not exact or min(exact) < 0 or not sum(exact):
        raise ConfigError(f"expected weights from 0 on, one of them above, got {weights}")
    total = lcm(*(weight.denominator for weight in exact))
    whole = [int(weight * total) for weight in exact]
    divisor = np.gcd.reduce(whole)
    shares = tuple(int(share // divisor) for share in whole)
    if sum(shares) > _MAX_TOTAL:
        raise ConfigError(
            f"expected weights that are whole numbers of one fraction, {_MAX_TOTAL} of it together"
            f" at most, got {weights}; round them, for instance to {_rounded(exact)}"
        )
    return shares


def _rounded(weights: Sequence[Fraction]) -> list[float]:
    """Return weights of nearly the same proportions, as parts of 1 with five digits."""
    return [round(float(weight / sum(weights)), 5) for weight in weights]


@dataclass(frozen=True)
class MixSchedule:
    """The schedule of fixed weights, from position 0 on.

    Attributes:
        shares: The weights as whole numbers, one per set.
    """

    shares: tuple[int, ...]

    def counts(self, stop: int) -> list[int]:
        """Return how many of the first ``stop`` positions each set gets."""
        return [int(counts[0]) for counts in self._split(np.array([stop], np.int64))]

    def place(self, positions: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the set, and the position in it, for each position; both of shape ``(n,)``."""
        children = np.full(len(positions), -1, np.int64)
        own = np.zeros(len(positions), np.int64)
        before, after = self._split(positions), self._split(positions + 1)
        for child, (start, stop) in enumerate(zip(before, after, strict=True)):
            chosen = stop > start
            children[chosen] = child
            own[chosen] = start[chosen]
        return children, own

    def position_of(self, child: int, own: int) -> int:
        """Return the position that takes sample ``own`` of a set."""
        left = sum(self.shares)
        rests: list[tuple[int, int]] = []
        for share in self.shares[:child]:
            rests.append((share, left))
            left -= share
        share = self.shares[child]
        # The last set takes all remaining positions; any other set takes position i, the smallest
        # number with (i+1) w >= own+1.
        position = own if share == left else -(-(own + 1) * left // share) - 1
        for taken, total in reversed(rests):
            # Undo one split: the smallest position so that the positions up to it, without those
            # of the set that was split off, number own+1.
            position = position * total // (total - taken)
        return position

    def _split(self, stops: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Return per set how many of the first ``stops`` positions it gets, shape as ``stops``."""
        counts, rest, left = [], stops, sum(self.shares)
        for share in self.shares:
            taken = rest * share // left if left else rest * 0
            counts.append(taken)
            rest, left = rest - taken, left - share
        return counts


# --- Several data sets in given proportions


class Mixture:
    """Data sets and the share of each; see ``mix``.

    Attributes:
        datasets: The data sets.
        shares: Their weights as whole numbers.
        seed: Part of the key of every data set's order.
        epoch_samples: Samples per epoch; None for the sum over all data sets.
    """

    def __init__(
        self,
        pairs: Iterable[tuple[Any, Weight]],
        *,
        seed: int = 0,
        epoch_samples: int | None = None,
    ) -> None:
        datasets, weights = [], []
        pair: Any
        for pair in pairs:
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise ConfigError(
                    "expected pairs of a data set and its weight in a mixture, got"
                    f" {type(pair).__name__}; write mix([(a, 0.7), (b, 0.3)])"
                )
            datasets.append(pair[0])
            weights.append(pair[1])
        if not datasets:
            raise ConfigError("expected at least one data set in a mixture, got none")
        if epoch_samples is not None:
            epoch_samples = whole("epoch_samples", epoch_samples, 1, LARGEST)
        self.datasets = datasets
        self.shares = shares_of(weights)
        self.seed = whole("seed", seed, -LARGEST_SEED, LARGEST_SEED)
        self.epoch_samples = epoch_samples

    def digest(self, digests: list[str], epoch_samples: int) -> str:
        """Return a digest of the mixture without its weights; 16 hex digits."""
        text = "/".join(["mix", str(self.seed), str(epoch_samples), *digests])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def mix(
    datasets: Mapping[Any, Weight] | Iterable[tuple[Any, Weight]],
    *,
    seed: int = 0,
    epoch_samples: int | None = None,
) -> Mixture:
    """Mix data sets in given proportions, for ``DataLoader``.

    The proportions hold at every position: after n samples every data set has given its share of
    n, within a sample or so. Each data set is read in its own order; when its epoch ends, its next
    epoch starts. A state restores the places in all data sets. Every rank decodes the windows of
    all lanes, because the samples of one lane go to different ranks.

    Args:
        datasets: Data set → weight, or pairs of them. Weights need not sum to 1. ``0.7`` means
            seven tenths; thirds are ``Fraction(1, 3)``, or weights of 1 and 2.
        seed: Part of the key of every data set's order, besides the seed of the loader.
        epoch_samples: Samples per epoch; None takes the sum over all data sets.

    Raises:
        ConfigError: There is no data set, or a weight is negative or not a number, or all weights
            are 0.
    """
    pairs = datasets.items() if isinstance(datasets, Mapping) else datasets
    return Mixture(pairs, seed=seed, epoch_samples=epoch_samples)


class History:
    """The schedule of a mixture whose weights have changed.

    Positions count through all epochs; they do not start again at 0.

    Args:
        weights: Pairs of the position from which shares apply, and these shares; the first
            position is 0.
        num_children: Number of sets.

    Raises:
        ConfigError: There is not one weight per set, or positions do not start at 0 and ascend.
    """

    def __init__(self, weights: Weights, num_children: int) -> None:
        starts = [start for start, _ in weights]
        if not starts or starts[0] or sorted(set(starts)) != starts:
            raise ConfigError(f"expected weights from position 0 on, ascending, got {weights}")
        if any(len(shares) != num_children or not sum(shares) for _, shares in weights):
            raise ConfigError(f"expected {num_children} weights, one of them above 0: {weights}")
        self._starts = starts
        self._schedules = [MixSchedule(shares) for _, shares in weights]
        # Number of samples that every set has given when each schedule starts.
        self._before = [[0] * num_children]
        for i in range(1, len(weights)):
            length = self._starts[i] - self._starts[i - 1]
            counts = self._schedules[i - 1].counts(length)
            self._before.append([a + b for a, b in zip(self._before[-1], counts, strict=True)])

    def counts(self, stop: int) -> list[int]:
        """Return how many of the first ``stop`` positions each set gets."""
        i = bisect_right(self._starts, stop) - 1
        counts = self._schedules[i].counts(stop - self._starts[i])
        return [a + b for a, b in zip(self._before[i], counts, strict=True)]

    def place(self, positions: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return per position, ascending, the set and the number of the sample in its stream."""
        children, own = np.empty_like(positions), np.empty_like(positions)
        # Positions ascend, so each schedule gets one contiguous part of them.
        cuts = [*np.searchsorted(positions, self._starts).tolist(), len(positions)]
        for i, schedule in enumerate(self._schedules):
            part = slice(cuts[i], cuts[i + 1])
            found, numbers = schedule.place(positions[part] - self._starts[i])
            children[part] = found
            own[part] = numbers + np.array(self._before[i], np.int64)[found]
        return children, own

    def position_of(self, child: int, own: int) -> int:
        """Return the position that takes sample ``own`` of a set's stream."""
        # The schedule in which the set gives this sample: the last one that starts at or before it.
        before = [counts[child] for counts in self._before]
        i = bisect_right(before, own) - 1
        return self._starts[i] + self._schedules[i].position_of(child, own - before[i])

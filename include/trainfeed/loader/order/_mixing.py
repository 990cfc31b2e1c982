"""The set that each position of a mixture is taken from, computed with whole numbers only.

With two sets, the first one, of weight w, gets position i if ``floor((i+1) w) - floor(i w)`` is 1.
With more sets the rule is applied repeatedly: to the first set and all positions, then to the
second set and the positions that the first one did not get, and so on. After any number of
positions the count of a set differs from its exact share by at most one position per split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import ConfigError

__all__ = ["MixSchedule", "Weight", "shares_of"]

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

"""The seeds of an epoch: one for the order of the images, one for mirroring them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainfeed.conversion.sorting import sort_keys

__all__ = ["EpochSeeds"]


@dataclass(frozen=True)
class EpochSeeds:
    """The seeds of all epochs of a reader.

    Attributes:
        seed: The seed that all others are computed from.
    """

    seed: int

    def order(self, epoch: int) -> int:
        """Return the seed of the order of an epoch."""
        return self._number(2 * epoch)

    def flips(self, epoch: int) -> int:
        """Return the seed that chooses the images to mirror in an epoch."""
        return self._number(2 * epoch + 1)

    def _number(self, ordinal: int) -> int:
        return int(sort_keys(self.seed, np.array([ordinal], np.uint64))[0])

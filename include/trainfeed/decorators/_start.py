"""The start of a pass: its number, and the number of samples that it skips."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from trainfeed.readers import ReaderLike

__all__ = ["Epochs", "Start", "starts_of", "times_of"]

R = TypeVar("R", bound=ReaderLike)


class Start(NamedTuple):
    """The start of a pass.

    Attributes:
        epoch: Number of the pass; None lets every reader take its next number.
        position: Number of samples to skip; of batches, if the reader gives batches.
    """

    epoch: int | None = None
    position: int = 0

    def at(self, position: int) -> Start:
        """Return the start of the same pass at another position."""
        return Start(self.epoch, position)


class Epochs:
    """The numbers of passes, from 0."""

    def __init__(self) -> None:
        self.restart(0)

    def restart(self, epoch: int) -> None:
        """Set the number of the next pass."""
        self._numbers = itertools.count(epoch)

    def of(self, start: Start) -> int:
        """Return the number of a pass that starts now; threads may start passes at once."""
        return next(self._numbers) if start.epoch is None else start.epoch


def times_of(readers: Iterable[ReaderLike]) -> Counter[int]:
    """Return how often each reader occurs, by ``id``."""
    return Counter(map(id, readers))


def starts_of(readers: Sequence[R], start: Start) -> Iterator[tuple[R, Start]]:
    """Yield each reader with the start of its own pass.

    A reader that occurs n times makes n passes in each pass over all readers, so the numbers of
    its passes are n times those of the whole, plus 0 to n - 1.
    """
    times, seen = times_of(readers), Counter[int]()
    for reader in readers:
        key = id(reader)
        epoch = None if start.epoch is None else start.epoch * times[key] + seen[key]
        seen[key] += 1
        yield reader, Start(epoch, start.position)

"""Where passes begin: at which pass, and behind how many samples."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from trainfeed.readers import ReaderLike

__all__ = ["Epochs", "Start", "starts_of", "times_of"]

R = TypeVar("R", bound=ReaderLike)


class Start(NamedTuple):
    """Where a pass begins.

    Attributes:
        epoch: The number of the pass; None: every reader takes its next one.
        position: So many samples are left out; batches, where a reader gives batches.
    """

    epoch: int | None = None
    position: int = 0

    def at(self, position: int) -> Start:
        """Return another position of the same pass."""
        return Start(self.epoch, position)


class Epochs:
    """The numbers of passes, from 0."""

    def __init__(self) -> None:
        self.restart(0)

    def restart(self, epoch: int) -> None:
        """Let the next pass have a number."""
        self._numbers = itertools.count(epoch)

    def of(self, start: Start) -> int:
        """Return the number of a pass that starts now; threads may start passes at once."""
        return next(self._numbers) if start.epoch is None else start.epoch


def times_of(readers: Iterable[ReaderLike]) -> Counter[int]:
    """Return how often a pass goes over each reader, by its identity."""
    return Counter(map(id, readers))


def starts_of(readers: Sequence[R], start: Start) -> Iterator[tuple[R, Start]]:
    """Yield each reader, and where its own pass begins.

    One that is there n times makes n passes of its own in each pass over all.
    """
    times, seen = times_of(readers), Counter[int]()
    for reader in readers:
        key = id(reader)
        epoch = None if start.epoch is None else start.epoch * times[key] + seen[key]
        seen[key] += 1
        yield reader, Start(epoch, start.position)

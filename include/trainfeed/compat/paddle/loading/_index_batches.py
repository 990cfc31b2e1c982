"""Batches of positions for several ranks, the same count for each."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Final

import numpy as np

from trainfeed.whole_numbers import whole_value

__all__ = ["DistributedBatchSampler", "IndexBatch"]


class IndexBatch(list[int]):
    """The positions of one batch in its data set.

    Attributes:
        is_padding: For each position, whether another rank, or this one, has it too in this pass
            because the samples do not divide by the ranks. An evaluation leaves those out.
    """

    def __init__(self, positions: list[int], is_padding: list[bool]) -> None:
        super().__init__(positions)
        self.is_padding = is_padding


class DistributedBatchSampler:
    """Hands out positions in batches to ranks in turn; every rank gets as many.

    The positions are padded with the first ones, again and again, until they divide by the ranks;
    shuffled, if asked for; given out in blocks of ``batch_size`` to one rank after the other; and
    what does not fill a block for every rank is split evenly.

    Args:
        dataset: Anything with a length, or the length.
        batch_size: Positions in a batch.
        num_replicas: Ranks.
        rank: This one, from 0.
        shuffle: A new order in every pass, the same on all ranks.
        drop_last: Leave out a last batch that has fewer.

    Attributes:
        epoch: The number of the next pass.

    Raises:
        ValueError: A number is out of range.
    """

    def __init__(
        self,
        dataset: Sized | int,
        batch_size: int,
        num_replicas: int = 1,
        rank: int = 0,
        shuffle: bool = False,
        drop_last: bool = False,
    ) -> None:
        length = len(dataset) if isinstance(dataset, Sized) else whole_value("length", dataset, 0)
        batch_size = whole_value("batch_size", batch_size, 1)
        num_replicas = whole_value("num_replicas", num_replicas, 1)
        rank = whole_value("rank", rank, 0, num_replicas - 1)
        self._length: Final = length
        self._batch_size: Final = batch_size
        self._num_replicas: Final = num_replicas
        self._rank: Final = rank
        self._shuffle: Final = shuffle
        self._drop_last: Final = drop_last
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Make the next pass that of ``epoch``; each pass counts it up by one if it shuffles.

        Raises:
            ValueError: It is no number from 0 on.
        """
        self.epoch = whole_value("epoch", epoch, 0)

    def __len__(self) -> int:
        """Return how many batches every rank gets."""
        full, rest = divmod(self._num_mine, self._batch_size)
        return full + (rest > 0 and not self._drop_last)

    def __iter__(self) -> Iterator[IndexBatch]:
        """Start a pass over the batches of this rank."""
        mine = self._mine()
        for start in range(0, len(mine), self._batch_size):
            numbers = mine[start : start + self._batch_size]
            if len(numbers) < self._batch_size and self._drop_last:
                return
            yield IndexBatch(
                [number % self._length for number in numbers],
                [number >= self._length for number in numbers],
            )

    @property
    def _num_mine(self) -> int:
        return -(-self._length // self._num_replicas)

    def _mine(self) -> list[int]:
        """Return numbers of this rank; those from the length on are padding."""
        numbers = list(range(self._num_mine * self._num_replicas))
        if self._shuffle:
            # The original's generator, so that its orders come out.
            np.random.RandomState(self.epoch).shuffle(numbers)
            self.epoch += 1
        size, ranks, rank = self._batch_size, self._num_replicas, self._rank
        num_tail = len(numbers) % (size * ranks)
        rounds, tail = numbers[: len(numbers) - num_tail], numbers[len(numbers) - num_tail :]
        mine: list[int] = []
        for start in range(rank * size, len(rounds), size * ranks):
            mine += rounds[start : start + size]
        share = num_tail // ranks
        return mine + tail[rank * share : (rank + 1) * share]

"""Batches of positions for several ranks, an equal number for each."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Final

import numpy as np

from trainfeed.whole_numbers import whole_value

__all__ = ["DistributedBatchSampler", "IndexBatch"]


class IndexBatch(list[int]):
    """The positions of one batch in its data set.

    Attributes:
        is_padding: One flag per position: whether the position repeats a sample of this pass,
            because the samples do not divide by the ranks. An evaluation must leave these out.
    """

    def __init__(self, positions: list[int], is_padding: list[bool]) -> None:
        super().__init__(positions)
        self.is_padding = is_padding


class DistributedBatchSampler:
    """Deals batches of positions to ranks in turn; every rank gets the same number.

    The positions are padded with the first ones, repeatedly, until they divide by the ranks; then
    shuffled if ``shuffle``; then dealt in blocks of ``batch_size`` to the ranks in turn. The rest,
    too small for a block per rank, is divided evenly.

    Args:
        dataset: An object with a length, or the length.
        batch_size: Positions per batch.
        num_replicas: Number of ranks.
        rank: Number of this rank, from 0.
        shuffle: Whether every pass has a new order, equal on all ranks.
        drop_last: Whether to omit a last batch with fewer positions.

    Attributes:
        epoch: Number of the next pass.

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
        """Set the number of the next pass; with ``shuffle`` each pass increments it.

        Raises:
            ValueError: ``epoch`` is not a whole number of 0 or more.
        """
        self.epoch = whole_value("epoch", epoch, 0)

    def __len__(self) -> int:
        """Return the number of batches per rank."""
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
        """Return the numbers of this rank; numbers from the length on are padding."""
        numbers = list(range(self._num_mine * self._num_replicas))
        if self._shuffle:
            # The generator of the original, to get the same orders.
            np.random.RandomState(self.epoch).shuffle(numbers)
            self.epoch += 1
        size, ranks, rank = self._batch_size, self._num_replicas, self._rank
        # A round gives one block to every rank; the tail is shorter than a round.
        num_tail = len(numbers) % (size * ranks)
        rounds, tail = numbers[: len(numbers) - num_tail], numbers[len(numbers) - num_tail :]
        mine: list[int] = []
        for start in range(rank * size, len(rounds), size * ranks):
            mine += rounds[start : start + size]
        share = num_tail // ranks
        return mine + tail[rank * share : (rank + 1) * share]

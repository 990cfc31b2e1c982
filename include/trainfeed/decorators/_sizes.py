"""The sizes of the batches of a pass, from which the starts of batches follow."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TypeVar

from trainfeed.decorators._reader_stage import count
from trainfeed.decorators._start import Start
from trainfeed.errors import ReaderEndedError
from trainfeed.readers import ended, open_reader

__all__ = ["BatchSizes"]

T = TypeVar("T")


class BatchSizes:
    """The sizes of the batches of a pass.

    Args:
        batch_size: One size for all batches, or a function from the number of a batch to its size.
        drop_last: Whether a last batch with fewer samples is left out.

    Attributes:
        drop_last: As above.

    Raises:
        ValueError: ``batch_size`` is not a whole number of 1 or more.
    """

    def __init__(self, batch_size: int | Callable[[int], int], *, drop_last: bool) -> None:
        self.drop_last = drop_last
        self._size = (
            batch_size if callable(batch_size) else count("batch_size", batch_size, at_least=1)
        )

    def of(self, first: int) -> Iterator[int]:
        """Yield the sizes of the batches from number ``first`` on, without end."""
        size = self._size
        if not callable(size):
            return itertools.repeat(size)
        return (
            count(f"size of batch {number}", size(number), at_least=1)
            for number in itertools.count(first)
        )

    def from_position(self, read: Callable[[Start, int], Iterator[T]], start: Start) -> Iterator[T]:
        """Yield the batches of a pass from a position on.

        Args:
            read: Called with the start in samples, and the number of the batch that starts there.
            start: Start of the pass; its position counts batches.

        Raises:
            ReaderEndedError: There are fewer batches.
        """
        # Reading starts one batch earlier: that batch was handed over, so it must exist. The last
        # batch of a pass may be short, so the start of the next one could be behind the last
        # sample.
        first = max(0, start.position - 1)
        with open_reader(lambda: read(start.at(self._num_samples(first)), first)) as batches:
            if start.position:
                self._leave_out_one(batches, start.position)
            yield from batches

    def _leave_out_one(self, batches: Iterator[T], position: int) -> None:
        try:
            for _ in batches:
                return
        except ReaderEndedError as error:
            raise ended(position, self._num_batches(error.num_samples)) from None
        raise ended(position, position - 1)

    def _num_samples(self, num_batches: int) -> int:
        return sum(itertools.islice(self.of(0), num_batches))

    def _num_batches(self, num_samples: int) -> int:
        ends = itertools.accumulate(self.of(0))
        whole = sum(1 for _ in itertools.takewhile(lambda end: end <= num_samples, ends))
        return whole if self.drop_last or self._num_samples(whole) == num_samples else whole + 1

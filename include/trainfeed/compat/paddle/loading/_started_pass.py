"""Passes that are started, read and reset by method calls, and the count of waiting batches."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from trainfeed.errors import LoaderError, PassEndedError
from trainfeed.readers import open_reader

__all__ = ["BatchQueue", "StartedPass"]

T = TypeVar("T")


class BatchQueue:
    """Counts the batches of the last started pass that wait for the consumer.

    The original's queue also accepts items; this one only counts.

    Args:
        capacity: Maximal number of waiting batches.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._counts = _Counts()

    def capacity(self) -> int:
        """Return the maximal number of waiting batches."""
        return self._capacity

    def size(self) -> int:
        """Return the number of batches that were made and not yet handed over."""
        return self._counts.num_waiting

    def begin(self) -> _Counts:
        """Start counting a new pass; the counts of earlier passes are dropped."""
        self._counts = _Counts()
        return self._counts


class _Counts:
    """Counts of one pass: batches made by a thread or a child process, and batches taken."""

    def __init__(self) -> None:
        # Anonymous shared memory: a forked child increments the number, this process reads it. One
        # writer, so no lock is needed.
        self._made = mmap.mmap(-1, 8)
        self._num_taken = 0
        self._is_over = False

    @property
    def num_waiting(self) -> int:
        return 0 if self._is_over else max(0, self._num_made - self._num_taken)

    @property
    def _num_made(self) -> int:
        return int.from_bytes(self._made[:])

    def made(self, batches: Iterator[T]) -> Iterator[T]:
        """Yield batches and count them as made; runs in the thread or process that makes them."""
        with open_reader(lambda: batches):
            for batch in batches:
                self._made[:] = (self._num_made + 1).to_bytes(8)
                yield batch

    def taken(self, batches: Iterator[T]) -> Iterator[T]:
        """Yield batches and count them as taken."""
        try:
            with open_reader(lambda: batches):
                for batch in batches:
                    self._num_taken += 1
                    yield batch
        finally:
            self._is_over = True


class StartedPass(Generic[T]):
    """The pass of a loader that is not iterable: started, read and reset by method calls.

    The executor of the original reads such a loader; here the user calls ``read_next``.
    """

    def __init__(self) -> None:
        self._groups: Iterator[T] | None = None

    def start(self, begin: Callable[[], Iterator[T]]) -> None:
        """Start a pass.

        Args:
            begin: Function that returns the iterator of the pass.

        Raises:
            LoaderError: The previous pass has not ended.
        """
        if self._groups is not None:
            raise LoaderError(
                "expected start() after the pass before has ended, got it in the middle of a"
                " pass; call reset() first"
            )
        self._groups = begin()

    def read_next(self) -> T:
        """Return the next item of the pass.

        Raises:
            LoaderError: No pass was started.
            PassEndedError: The pass is over; raised by every call until ``reset``.
        """
        if self._groups is None:
            raise LoaderError("expected a pass to read from, none was started; call start()")
        for group in self._groups:
            return group
        raise PassEndedError(
            "the pass is over, all of its batches were read; call reset(), and start() for the next"
        )

    def reset(self) -> None:
        """End the pass at any position; without a pass nothing happens."""
        groups, self._groups = self._groups, None
        close: Any = getattr(groups, "close", None)
        if close is not None:
            close()

"""Passes of a loader that is started, read and reset by hand; and how many batches wait in one."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from trainfeed.errors import LoaderError, PassEndedError
from trainfeed.readers import open_reader

__all__ = ["BatchQueue", "StartedPass"]

T = TypeVar("T")


class BatchQueue:
    """How many batches of the pass that was begun last wait for the consumer.

    The original's queue also takes what is pushed into it; this one only counts.

    Args:
        capacity: How many may wait.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._counts = _Counts()

    def capacity(self) -> int:
        """Return how many batches may wait."""
        return self._capacity

    def size(self) -> int:
        """Return how many batches were made and not handed over yet."""
        return self._counts.num_waiting

    def begin(self) -> _Counts:
        """Count another pass from now on."""
        self._counts = _Counts()
        return self._counts


class _Counts:
    """Batches of one pass: made by a thread or a child process, taken by the consumer."""

    def __init__(self) -> None:
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
        """Yield batches, counted as they are made; in the thread or the process that makes them."""
        with open_reader(lambda: batches):
            for batch in batches:
                self._made[:] = (self._num_made + 1).to_bytes(8)
                yield batch

    def taken(self, batches: Iterator[T]) -> Iterator[T]:
        """Yield batches, counted as they are handed over."""
        try:
            with open_reader(lambda: batches):
                for batch in batches:
                    self._num_taken += 1
                    yield batch
        finally:
            self._is_over = True


class StartedPass(Generic[T]):
    """The pass of a loader that is not iterated: started, read to its end, reset.

    The original's executor reads such a loader; here ``read_next`` does.
    """

    def __init__(self) -> None:
        self._groups: Iterator[T] | None = None

    def start(self, begin: Callable[[], Iterator[T]]) -> None:
        """Begin a pass.

        Args:
            begin: Called for it, if it may begin.

        Raises:
            LoaderError: One is going on.
        """
        if self._groups is not None:
            raise LoaderError(
                "expected start() after the pass before has ended, got it in the middle of a"
                " pass; call reset() first"
            )
        self._groups = begin()

    def read_next(self) -> T:
        """Return what comes next.

        Raises:
            LoaderError: No pass was started.
            PassEndedError: Nothing is left; said again until ``reset``.
        """
        if self._groups is None:
            raise LoaderError("expected a pass to read from, none was started; call start()")
        for group in self._groups:
            return group
        raise PassEndedError(
            "the pass is over, all of its batches were read; call reset(), and start() for the next"
        )

    def reset(self) -> None:
        """End the pass, wherever it is; nothing happens where there is none."""
        groups, self._groups = self._groups, None
        close: Any = getattr(groups, "close", None)
        if close is not None:
            close()

"""One kept pass over a reader, for all passes of this process and its threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, TypeVar

from trainfeed.decorators._start import Start
from trainfeed.decorators.caching._store import Store, StoreLimits
from trainfeed.errors import ReaderEndedError
from trainfeed.readers import Block, leave_out, leave_out_rows, open_reader
from trainfeed.thread_ties import new_lock

__all__ = ["Kept"]

T = TypeVar("T")


class _Filled(NamedTuple):
    """The items of a pass, and the error that the reader raised after them."""

    store: Store
    error: Exception | None = None


class Kept:
    """The items of the first pass.

    The first pass reads all items; other passes wait for it. A fork has the items that were read
    before it; if none were, it reads for itself.

    Args:
        open_pass: Opens a pass over the reader.
        limits: Limits for memory and file.
    """

    def __init__(
        self,
        open_pass: Callable[[Start], AbstractContextManager[Iterator[Any]]],
        limits: StoreLimits,
    ) -> None:
        self._open_pass = open_pass
        self._limits = limits
        self._whole: _Filled | None = None
        self._lock = new_lock()

    def items_from(self, start: Start) -> Iterator[Any]:
        """Yield items; positions count them."""
        filled = self.fill()
        with open_reader(lambda: iter(filled.store)) as items:
            yield from _and_error(_rest(items, start.position), filled.error)

    def rows_from(self, start: Start) -> Iterator[Block]:
        """Yield blocks; positions count their rows."""
        filled = self.fill()
        with open_reader(lambda: iter(filled.store)) as blocks:
            yield from _and_error(leave_out_rows(blocks, start.position), filled.error)

    def fill(self) -> _Filled:
        """Return the items; read them if no pass has done so.

        Raises:
            MemoryLimitError: The items exceed the limits.
            QuotaExceededError: The disk is full.
        """
        return self._fill_first() if self._whole is None else self._whole

    def _fill_first(self) -> _Filled:
        with self._lock:
            return self._read(Store(self._limits)) if self._whole is None else self._whole

    def _read(self, store: Store) -> _Filled:
        errors: list[Exception] = []
        # The kept order is that of pass 0, whichever pass is requested first.
        with self._open_pass(Start(0)) as items:
            for item in _until_error(items, errors):
                store.append(item)
        store.flush()
        # After an error only this pass uses its items; the next pass reads again.
        if errors:
            return _Filled(store, errors[0])
        self._whole = _Filled(store)
        return self._whole


def _until_error(items: Iterator[T], errors: list[Exception]) -> Iterator[T]:
    try:
        yield from items
    except Exception as error:  # noqa: BLE001 (raised after the items before it)
        errors.append(error)


def _rest(items: Iterator[T], position: int) -> Iterator[T]:
    leave_out(items, position)
    yield from items


def _and_error(items: Iterator[T], error: Exception | None) -> Iterator[T]:
    try:
        yield from items
    except ReaderEndedError:
        if error is None:
            raise
    if error is not None:
        raise error

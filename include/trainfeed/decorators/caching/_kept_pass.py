"""One kept pass over a reader, for all passes of this process, its threads and its forks."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple, TypeVar

from trainfeed.decorators._start import Start
from trainfeed.decorators.caching._store import SpillFile, Store, StoreLimits
from trainfeed.errors import ReaderEndedError, StorageError
from trainfeed.readers import Block, leave_out, leave_out_rows, open_reader
from trainfeed.thread_ties import new_lock

__all__ = ["Kept"]

T = TypeVar("T")

_LOG: Final = logging.getLogger(__name__)
_unfilled: Final[weakref.WeakSet[Kept]] = weakref.WeakSet()
_unfilled_lock: Final = new_lock()


class _Filled(NamedTuple):
    """The items of a pass, and the error that the reader raised after them."""

    store: Store
    error: Exception | None = None


class Kept:
    """The items of the first pass.

    The first pass reads all items; other passes wait for it. If a process forks before it has
    read, parent and forks share a file: the first one that reads writes its items to the file, and
    the others use them. Only a fork that is made while another thread reads has no shared file,
    and reads for itself.

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
        self._shared: SpillFile | None = None
        self._is_reading = False
        self._lock = new_lock()
        with _unfilled_lock:
            _unfilled.add(self)

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

    def share(self) -> None:
        """Open the file in which a fork shares its items; called before a fork."""
        if self._whole is not None or self._shared is not None or self._is_reading:
            return
        try:
            self._shared = SpillFile(self._limits.folder, self._limits.max_shared_bytes)
        except StorageError as error:
            _LOG.warning("a fork will read what cache() keeps once more: %s", error)

    def _fill_first(self) -> _Filled:
        with self._lock:
            if self._whole is not None:
                return self._whole
            if self._shared is None:
                return self._read(Store(self._limits))
            return self._fill_shared(self._shared)

    def _fill_shared(self, shared: SpillFile) -> _Filled:
        with shared.locked():
            if shared.find_whole():
                return self._set_whole(Store(self._limits, shared))
            shared.begin()
            try:
                filled = self._read(Store(self._limits, shared))
            except BaseException:
                shared.drop()
                raise
            if filled.error is None:
                shared.finish()
            return filled

    def _read(self, store: Store) -> _Filled:
        errors: list[Exception] = []
        self._is_reading = True
        try:
            # The kept order is that of pass 0, whichever pass is requested first.
            with self._open_pass(Start(0)) as items:
                for item in _until_error(items, errors):
                    store.append(item)
            store.flush()
        finally:
            self._is_reading = False
        # After an error only this pass uses its items; the next pass reads again.
        return _Filled(store, errors[0]) if errors else self._set_whole(store)

    def _set_whole(self, store: Store) -> _Filled:
        self._whole = _Filled(store)
        with _unfilled_lock:
            _unfilled.discard(self)
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


def _share_unfilled() -> None:
    with _unfilled_lock:
        unfilled = list(_unfilled)
    for kept in unfilled:
        kept.share()


os.register_at_fork(before=_share_unfilled)

"""``cache``: the first pass reads, the later ones remember."""

from __future__ import annotations

import functools
import os
import pickle  # noqa: TID251 (a file without a name that only this process reads)
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import numpy as np

from trainfeed.decorators._lock import new_lock
from trainfeed.decorators._stage import (
    BlockStage,
    Stage,
    block_reader,
    count,
    open_blocks,
    open_samples,
)
from trainfeed.decorators._start import Start
from trainfeed.errors import MemoryLimitError
from trainfeed.paths import os_errors
from trainfeed.readers import Block, Reader, ReaderLike, leave_out, leave_out_rows, open_reader

__all__ = ["cache"]

_SPILL_BYTES: Final = 1 << 20


def cache(
    reader: ReaderLike,
    *,
    max_bytes: int = 1 << 30,
    spill_dir: str | Path | None = None,
    max_spill_bytes: int | None = None,
) -> Reader:
    """Return a reader over the same samples that calls ``reader`` for one whole pass only.

    The first whole pass reads and keeps; one that was left early, or has begun behind the first
    sample, does not count. All have the order of the first one. Samples in memory
    are the same objects every time, those on disk are new ones. The memory and the file, which
    has no name, go with the reader.

    Args:
        reader: A finite reader.
        max_bytes: What samples may take in memory, as far as their sizes can be told; the samples
            after that go to a file.
        spill_dir: Folder of that file; the system's temporary folder when None.
        max_spill_bytes: What the file may take; the disk's end when None.

    Raises:
        ValueError: A limit is negative.
        MemoryLimitError: The samples take more than both limits; raised by the first pass.
        QuotaExceededError: The disk is full; raised by the first pass.
    """
    count("max_bytes", max_bytes, at_least=0)
    open_store = functools.partial(_Store, max_bytes, spill_dir, max_spill_bytes)
    batched = getattr(reader, "batched", False)
    if source := block_reader(reader):
        kept = _Kept(functools.partial(open_blocks, source), open_store)

        def blocks(start: Start) -> Iterator[Block]:
            if batched:
                return kept.items_from(start)
            return kept.rows_from(start)

        return BlockStage([reader], blocks, form=source.form, batched=batched)
    samples = _Kept(functools.partial(open_samples, reader), open_store)
    return Stage([reader], samples.items_from, batched=batched)


class _Kept:
    """Passes of which the first complete one is kept."""

    def __init__(
        self,
        open_pass: Callable[[Start], AbstractContextManager[Iterator[Any]]],
        open_store: Callable[[], _Store],
    ) -> None:
        self._open_pass = open_pass
        self._open_store = open_store
        self._complete: _Store | None = None
        self._lock = new_lock()

    def items_from(self, start: Start) -> Iterator[Any]:
        """Yield items; positions count them."""
        complete = self._complete
        if complete is None:
            yield from self._read(start)
            return
        with open_reader(lambda: iter(complete)) as items:
            leave_out(items, start.position)
            yield from items

    def rows_from(self, start: Start) -> Iterator[Block]:
        """Yield blocks; positions count their rows."""
        complete = self._complete
        if complete is None:
            yield from self._read(start)
            return
        with open_reader(lambda: iter(complete)) as blocks:
            yield from leave_out_rows(blocks, start.position)

    def _read(self, start: Start) -> Iterator[Any]:
        # What is kept has one order, so every pass that is asked for by its number is pass 0.
        first = start if start.epoch is None else Start(0, start.position)
        store = None if start.position else self._open_store()
        with self._open_pass(first) as items:
            for item in items:
                if store is not None:
                    store.append(item)
                yield item
        if store is not None:
            store.flush()
            # Of two passes at once the first one to end is kept: orders may differ.
            with self._lock:
                if self._complete is None:
                    self._complete = store


class _Store:
    """Items in memory, and those that have no room there in a file."""

    def __init__(
        self, max_bytes: int, spill_dir: str | Path | None, max_spill_bytes: int | None
    ) -> None:
        self._items: list[Any] = []
        self._left_bytes = max_bytes
        self._spill_dir = None if spill_dir is None else str(spill_dir)
        self._max_spill_bytes = max_spill_bytes
        self._pending: list[Any] = []
        self._pending_bytes = 0
        self._fd: int | None = None
        self._spans: list[tuple[int, int]] = []

    def append(self, item: Any) -> None:
        """Keep one more item."""
        num_bytes = _size_bytes(item)
        if self._fd is None and num_bytes <= self._left_bytes:
            self._left_bytes -= num_bytes
            self._items.append(item)
            return
        if self._fd is None:
            self._open()
        self._pending.append(item)
        self._pending_bytes += num_bytes
        if self._pending_bytes >= _SPILL_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what waits to be written."""
        if self._fd is None or not self._pending:
            return
        data = pickle.dumps(self._pending, protocol=5)
        start = sum(self._spans[-1]) if self._spans else 0
        if self._max_spill_bytes is not None and start + len(data) > self._max_spill_bytes:
            raise MemoryLimitError(
                f"expected at most {self._max_spill_bytes} bytes beside those in memory, the"
                f" samples take {start + len(data)} and more; raise max_bytes or max_spill_bytes"
                " of cache()"
            )
        with os_errors(self._spill_dir):
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        self._spans.append((start, len(data)))
        self._pending, self._pending_bytes = [], 0

    def __iter__(self) -> Iterator[Any]:
        yield from self._items
        if self._fd is None:
            return
        for start, num_bytes in self._spans:
            # At a position of its own, so that several passes can go on at once.
            data = os.pread(self._fd, num_bytes, start)
            yield from pickle.loads(data)  # noqa: S301

    def _open(self) -> None:
        with os_errors(self._spill_dir):
            fd, path = tempfile.mkstemp(dir=self._spill_dir)
            Path(path).unlink()
        weakref.finalize(self, os.close, fd)
        self._fd = fd


def _size_bytes(item: Any) -> int:
    """Return about how much memory an item takes."""
    if isinstance(item, np.ndarray):
        return item.nbytes + sys.getsizeof(None)
    if isinstance(item, list | tuple):
        return sys.getsizeof(item) + sum(map(_size_bytes, item))
    if isinstance(item, Mapping):
        return sys.getsizeof(item) + sum(map(_size_bytes, item.values()))
    return sys.getsizeof(item)

"""``cache``: keeps one pass over a reader for all later passes, in memory or in a file."""

from __future__ import annotations

import functools
import os
import pickle  # noqa: TID251 (a file without a name that this process and its forks read)
import struct
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from trainfeed.core.datacenters import local_target
from trainfeed.core.thread_ties import new_lock
from trainfeed.decorators.stage import (
    BlockStage,
    ReaderStage,
    Start,
    block_reader,
    count,
    open_blocks,
    open_samples,
)
from trainfeed.errors import MemoryLimitError, QuotaExceededError, ReaderEndedError
from trainfeed.files import os_errors
from trainfeed.readers import (
    Block,
    BlockReader,
    Reader,
    ReaderLike,
    leave_out,
    leave_out_rows,
    open_reader,
)

# --- The storage of ``cache``: memory first, then a file without a name

_SPILL_BYTES: Final = 1 << 20
_LENGTH: Final = struct.Struct("<Q")


@dataclass(frozen=True)
class StoreLimits:
    """Limits for kept samples.

    Attributes:
        max_bytes: Limit for memory.
        max_spill_bytes: Limit for the file; None sets no limit.
        folder: Folder of the file; None is the temporary folder of the system.
    """

    max_bytes: int
    max_spill_bytes: int | None
    folder: str | None


class SpillFile:
    """Lists of samples in a file without a name, of frames ``num_bytes u64, pickle``.

    Args:
        folder: See ``StoreLimits``.
        max_bytes: Limit for the frames; None sets no limit.

    Raises:
        StorageError: The file cannot be made in the folder.
    """

    def __init__(self, folder: str | None, max_bytes: int | None) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        with os_errors(folder):
            self._fd, path = tempfile.mkstemp(dir=folder)
            # Without a name the file is freed with its last descriptor, also after SIGKILL.
            Path(path).unlink()
        weakref.finalize(self, os.close, self._fd)
        self._end = 0

    def append(self, items: list[Any]) -> None:
        """Append a list of items.

        Raises:
            MemoryLimitError: The file would exceed its limit.
            QuotaExceededError: The disk is full.
        """
        data = pickle.dumps(items, protocol=5)
        num_bytes = self._end + _LENGTH.size + len(data)
        if self._max_bytes is not None and num_bytes > self._max_bytes:
            raise MemoryLimitError(
                f"expected at most {self._max_bytes} bytes of samples in the file of cache(), they"
                f" take {num_bytes} and more, nothing was kept; raise max_bytes or max_spill_bytes"
                " of cache(), or take it away: the reader may have no end"
            )
        self._write(_LENGTH.pack(len(data)), self._end)
        self._write(data, self._end + _LENGTH.size)
        self._end += _LENGTH.size + len(data)

    def __iter__(self) -> Iterator[Any]:
        """Yield the items; every iterator has its own position, so passes may overlap."""
        position, end = 0, self._end
        while position < end:
            (num_bytes,) = _LENGTH.unpack(self._read(_LENGTH.size, position))
            yield from pickle.loads(self._read(num_bytes, position + _LENGTH.size))  # noqa: S301
            position += _LENGTH.size + num_bytes

    def _write(self, data: bytes, position: int) -> None:
        rest = memoryview(data)
        with os_errors(self._folder):
            while rest:
                num_bytes = os.pwrite(self._fd, rest, position)
                rest, position = rest[num_bytes:], position + num_bytes

    def _read(self, num_bytes: int, position: int) -> bytearray:
        data = bytearray(num_bytes)
        rest = memoryview(data)
        with os_errors(self._folder):
            # A single read returns at most 2 GiB.
            while rest and (num_read := os.preadv(self._fd, [rest], position)):
                rest, position = rest[num_read:], position + num_read
        return data


class Store:
    """Items in memory, and further items in a file.

    Args:
        limits: Limits for memory and file.
    """

    def __init__(self, limits: StoreLimits) -> None:
        self._limits = limits
        self._items: list[Any] = []
        self._left_bytes = limits.max_bytes
        self._file: SpillFile | None = None
        self._pending: list[Any] = []
        self._pending_bytes = 0

    def append(self, item: Any) -> None:
        """Keep a further item.

        Raises:
            MemoryLimitError: The items exceed the limits.
            QuotaExceededError: The disk is full.
        """
        num_bytes = _size_bytes(item)
        if self._file is None and num_bytes <= self._left_bytes:
            self._left_bytes -= num_bytes
            self._items.append(item)
            return
        if self._file is None:
            self._file = SpillFile(self._limits.folder, self._limits.max_spill_bytes)
        self._pending.append(item)
        self._pending_bytes += num_bytes
        if self._pending_bytes >= _SPILL_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the waiting items to the file."""
        if self._file is not None and self._pending:
            self._file.append(self._pending)
            self._pending, self._pending_bytes = [], 0

    def __iter__(self) -> Iterator[Any]:
        yield from self._items
        if self._file is not None:
            yield from self._file


def _size_bytes(item: Any) -> int:
    """Return an estimate of the bytes that an item takes."""
    if isinstance(item, np.ndarray):
        return item.nbytes + sys.getsizeof(None)
    if isinstance(item, list | tuple):
        return sys.getsizeof(item) + sum(map(_size_bytes, item))
    if isinstance(item, Mapping):
        return sys.getsizeof(item) + sum(map(_size_bytes, item.values()))
    return sys.getsizeof(item)


# --- One kept pass over a reader, for all passes of this process and its threads

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


# --- ``cache``: the first pass reads all samples, later passes use the kept ones

DEFAULT_MAX_BYTES: Final = 1 << 30
DEFAULT_MAX_SPILL_BYTES: Final = 16 << 30


def cache(
    reader: ReaderLike,
    *,
    max_bytes: int = DEFAULT_MAX_BYTES,
    spill_dir: str | Path | None = None,
    max_spill_bytes: int | None = DEFAULT_MAX_SPILL_BYTES,
) -> Reader:
    """Return a reader over the same samples that calls ``reader`` once.

    The first request for a sample, in any pass or thread, reads all samples;
    ``multiprocess_reader`` and loaders with a child process read them before they fork. A fork of
    another kind that comes before the first request reads for itself. All passes have the order of
    pass 0, also passes that skip samples. An error of the reader is raised after the samples before
    it; then no sample is kept, and the next pass reads again. Samples in memory are the same
    objects in every pass, samples on disk are new objects. The memory, and the file, which has no
    name, are freed with the reader.

    Args:
        reader: A finite reader.
        max_bytes: Limit for samples in memory, by estimates of their sizes; further samples go to
            a file.
        spill_dir: Folder of the file; None is the temporary folder of the system.
        max_spill_bytes: Limit for the file; None sets no limit.

    Raises:
        ValueError: A limit is negative.
        MemoryLimitError: The samples take more than both limits; raised by the first pass.
        QuotaExceededError: The disk is full; raised by the first pass.
    """
    count("max_bytes", max_bytes, at_least=0)
    if max_spill_bytes is not None:
        count("max_spill_bytes", max_spill_bytes, at_least=0)
    limits = StoreLimits(
        max_bytes, max_spill_bytes, None if spill_dir is None else str(local_target(spill_dir))
    )
    source = block_reader(reader)
    return _Cached(reader, limits) if source is None else _CachedBlocks(source, limits)


class _Keeping(ReaderStage):
    """A stage whose passes all repeat one pass of the reader below."""

    _kept: Kept

    def set_epoch(self, epoch: int) -> None:
        """Do nothing: every pass repeats pass 0 of the reader below."""

    def before_fork(self) -> None:
        """Read all samples now, so that forks share them."""
        try:
            self._kept.fill()
        except (MemoryLimitError, QuotaExceededError):
            raise
        except Exception:  # noqa: BLE001 (a fork meets the error again, and reports it)
            return


class _Cached(_Keeping):
    def __init__(self, reader: ReaderLike, limits: StoreLimits) -> None:
        self._kept = Kept(functools.partial(open_samples, reader), limits)
        batched = getattr(reader, "batched", False)
        super().__init__([reader], self._kept.items_from, batched=batched)


class _CachedBlocks(_Keeping, BlockStage):
    def __init__(self, source: BlockReader, limits: StoreLimits) -> None:
        self._kept = Kept(functools.partial(open_blocks, source), limits)
        super().__init__([source], self._blocks_from, form=source.form, batched=source.batched)

    def _blocks_from(self, start: Start) -> Iterator[Block]:
        if self.batched:
            return self._kept.items_from(start)
        return self._kept.rows_from(start)

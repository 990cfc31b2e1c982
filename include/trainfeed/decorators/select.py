"""The samples of a pass: fewer, shuffled, kept, from a saved state, or one of them repeated."""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from trainfeed.core.memory_group import available_bytes
from trainfeed.core.thread_ties import new_lock
from trainfeed.core.whole_numbers import whole_value
from trainfeed.decorators.batches import concatenated, rechunked
from trainfeed.decorators.stage import (
    BlockStage,
    Epochs,
    ReaderStage,
    Start,
    block_reader,
    count,
    open_blocks,
    open_samples,
)
from trainfeed.errors import LoaderError, MemoryLimitError
from trainfeed.readers import (
    Block,
    BlockReader,
    Reader,
    ReaderLike,
    Sample,
    ended,
    leave_out,
    leave_out_rows,
    num_rows,
    open_reader,
)

# --- ``firstn``: fewer samples; ``shuffle``: the same samples in another order

R = TypeVar("R")
T = TypeVar("T")


def firstn(reader: ReaderLike, n: int) -> Reader:
    """Return a reader over the first ``n`` samples; no further sample is read.

    Raises:
        ValueError: ``n`` is negative.
    """
    limit = count("n", n, at_least=0)
    batched = getattr(reader, "batched", False)
    if source := block_reader(reader):
        first = itertools.islice if batched else _first_rows

        def blocks(start: Start) -> Iterator[Block]:
            return _first(open_blocks, source, start, limit, first)

        return BlockStage([reader], blocks, form=source.form, batched=batched)

    def samples(start: Start) -> Iterator[Sample]:
        return _first(open_samples, reader, start, limit, itertools.islice)

    return ReaderStage([reader], samples, batched=batched)


def _first(
    open_pass: Callable[[R, Start], AbstractContextManager[Iterator[T]]],
    reader: R,
    start: Start,
    limit: int,
    first: Callable[[Iterator[T], int], Iterator[T]],
) -> Iterator[T]:
    left = limit - start.position
    if left > 0:
        with open_pass(reader, start) as items:
            yield from first(items, left)
        return
    # All samples up to the limit are skipped. To find out whether there are so many, read the last
    # one of them, and not a sample after the limit.
    if limit:
        with open_pass(reader, start.at(limit - 1)) as items:
            if not any(True for _ in items):
                raise ended(start.position, limit - 1)
    if left < 0:
        raise ended(start.position, limit)


def _first_rows(blocks: Iterator[Block], limit: int) -> Iterator[Block]:
    left = limit
    for block in blocks:
        if num_rows(block) >= left:
            yield {name: column[:left] for name, column in block.items()}
            return
        left -= num_rows(block)
        yield block


def shuffle(reader: ReaderLike, buf_size: int, *, seed: int = 0) -> Reader:
    """Return a reader over the same samples, in random order within windows.

    A window is filled, its samples are given in random order, then the next window is filled. The
    order is a function of ``seed``, the number of the pass, and the position; samples and blocks
    have the same order.

    Args:
        reader: The reader.
        buf_size: Samples per window, which are held in memory. 0 and 1 keep the order.
        seed: Seed of the order. Passes have different orders; the n-th passes of all readers with
            this seed have the same order.

    Raises:
        ValueError: ``buf_size`` is negative, or ``seed`` is not a whole number.
    """
    size = count("buf_size", buf_size, at_least=0)
    seed = whole_value("seed", seed)
    epochs = Epochs()
    batched = getattr(reader, "batched", False)
    if source := block_reader(reader):

        def blocks(start: Start) -> Iterator[Block]:
            windows = _Windows(size, seed, epochs.of(start), start)
            opened = open_blocks(source, windows.upstream)
            return windows.items(opened) if batched else windows.rows(opened)

        return BlockStage([reader], blocks, form=source.form, batched=batched, epochs=epochs)

    def samples(start: Start) -> Iterator[Sample]:
        windows = _Windows(size, seed, epochs.of(start), start)
        return windows.items(open_samples(reader, windows.upstream))

    return ReaderStage([reader], samples, batched=batched, epochs=epochs)


class _Windows:
    """The windows of one pass, from the one that holds its first sample on."""

    def __init__(self, size: int, seed: int, epoch: int, start: Start) -> None:
        self._size = size
        self._seed = seed
        self._epoch = epoch
        self._position = start.position
        self._first = start.position // max(1, size)
        self.upstream = start.at(self._first * max(1, size))

    def items(self, opened: AbstractContextManager[Iterator[Any]]) -> Iterator[Any]:
        items = self._shuffled(opened)
        # A pass that skips no sample in its first window does without a further generator.
        return items if self._position == self.upstream.position else self._rest(items)

    def rows(self, opened: AbstractContextManager[Iterator[Block]]) -> Iterator[Block]:
        with open_reader(lambda: self._shuffled_rows(opened)) as blocks:
            yield from leave_out_rows(blocks, self._position, first=self.upstream.position)

    def _rest(self, shuffled: Iterator[Any]) -> Iterator[Any]:
        with open_reader(lambda: shuffled) as items:
            leave_out(items, self._position, first=self.upstream.position)
            yield from items

    def _shuffled(self, opened: AbstractContextManager[Iterator[Any]]) -> Iterator[Any]:
        with opened as items:
            if self._size < 2:
                yield from items
                return
            for number in itertools.count(self._first):
                window = list(itertools.islice(items, self._size))
                is_last = len(window) < self._size
                for i in self._order(number, len(window)).tolist():
                    yield window[i]
                # Otherwise this window would stay in memory while the next one is filled.
                del window
                if is_last:
                    return

    def _shuffled_rows(self, opened: AbstractContextManager[Iterator[Block]]) -> Iterator[Block]:
        with opened as blocks:
            if self._size < 2:
                yield from blocks
                return
            windows = rechunked(blocks, itertools.repeat(self._size))
            for number, pieces in enumerate(windows, self._first):
                window = concatenated(pieces)
                order = self._order(number, num_rows(window))
                yield {name: column[order] for name, column in window.items()}

    def _order(self, window: int, length: int) -> NDArray[np.int64]:
        return _order(self._seed, self._epoch, window, length)


def _order(seed: int, epoch: int, window: int, length: int) -> NDArray[np.int64]:
    """Return a permutation of ``range(length)``, equal in every version of numpy."""
    # The raw stream of a bit generator never changes; the streams of distributions may.
    mask = (1 << 64) - 1
    key = np.array([seed & mask, epoch & mask], np.uint64)
    counter = np.array([0, 0, 0, window & mask], np.uint64)
    drawn = np.random.Philox(key=key, counter=counter).random_raw(length)
    return np.argsort(drawn, kind="stable")


# --- ``cache``: the first pass reads all samples, later passes are given the same objects


def cache(reader: ReaderLike, *, max_bytes: int | None = None) -> Reader:
    """Return a reader over the same samples that reads ``reader`` once per process.

    The first request for a sample, in any pass or thread, reads all samples into memory; every
    pass is given the same objects. All passes have the order of pass 0. A fork has the samples
    that its parent had read before it, as any memory; if there were none, it reads for itself.
    ``multiprocess_reader`` and loaders with a child process read all samples before they fork. An
    error of the reader is raised after the samples before it; then no sample is kept, and the next
    pass reads again. The memory is freed with the reader.

    Args:
        reader: A finite reader.
        max_bytes: Limit for the samples, by estimates of their sizes; None is half of the memory
            that is free when reading begins.

    Raises:
        ValueError: The limit is negative.
        MemoryLimitError: The samples take more; raised by the first pass, before its first sample.
    """
    limit = None if max_bytes is None else count("max_bytes", max_bytes, at_least=0)
    source = block_reader(reader)
    return _Cached(reader, limit) if source is None else _CachedBlocks(source, limit)


class _Kept:
    """The items of pass 0, read by the first pass of this process; other passes wait for it."""

    def __init__(
        self,
        open_pass: Callable[[Start], AbstractContextManager[Iterator[Any]]],
        max_bytes: int | None,
    ) -> None:
        self._open_pass = open_pass
        self._max_bytes = max_bytes
        self._items: list[Any] | None = None
        self._lock = new_lock()

    def __call__(self) -> Iterator[Any]:
        """Yield the items, and raise the error that the reader raised after them."""
        items, error = self.read_once()
        yield from items
        if error is not None:
            raise error

    def read_once(self) -> tuple[list[Any], Exception | None]:
        """Return the items and the error that the reader raised after them.

        Raises:
            MemoryLimitError: The items exceed the limit.
        """
        with self._lock:
            if self._items is not None:
                return self._items, None
            max_bytes = _half_of_free_bytes() if self._max_bytes is None else self._max_bytes
            items: list[Any] = []
            left = max_bytes
            try:
                # The kept order is that of pass 0, whichever pass is requested first.
                with self._open_pass(Start(0)) as opened:
                    for item in opened:
                        left -= _size_bytes(item)
                        if left < 0:
                            break
                        items.append(item)
            except Exception as error:  # noqa: BLE001 (raised after the items before it)
                # Only this pass is given these items; the next pass reads again.
                return items, error
            if left < 0:
                raise MemoryLimitError(
                    f"expected at most {max_bytes} bytes of samples in cache(), they take more,"
                    " nothing was kept; raise max_bytes of cache(), or take it away: the reader may"
                    " have no end"
                )
            self._items = items
            return items, None


def _half_of_free_bytes() -> int:
    free = available_bytes()
    return sys.maxsize if free is None else free // 2


def _size_bytes(item: Any) -> int:
    """Return an estimate of the bytes that an item takes."""
    if isinstance(item, np.ndarray):
        return item.nbytes + sys.getsizeof(None)
    if isinstance(item, list | tuple):
        return sys.getsizeof(item) + sum(map(_size_bytes, item))
    if isinstance(item, Mapping):
        return sys.getsizeof(item) + sum(map(_size_bytes, item.values()))
    return sys.getsizeof(item)


class _Keeping(ReaderStage):
    """A stage whose passes all repeat pass 0 of the reader below."""

    _kept: _Kept

    def set_epoch(self, epoch: int) -> None:
        """Do nothing: every pass repeats pass 0 of the reader below."""

    def before_fork(self) -> None:
        """Read all samples now, so that forks have them; a fork meets an error of the reader."""
        self._kept.read_once()


class _Cached(_Keeping):
    def __init__(self, reader: ReaderLike, max_bytes: int | None) -> None:
        self._kept = _Kept(functools.partial(open_samples, reader), max_bytes)
        batched = getattr(reader, "batched", False)
        super().__init__([reader], self._items, batched=batched)

    def _items(self, start: Start) -> Iterator[Sample]:
        with open_reader(self._kept) as items:
            leave_out(items, start.position)
            yield from items


class _CachedBlocks(_Keeping, BlockStage):
    def __init__(self, source: BlockReader, max_bytes: int | None) -> None:
        self._kept = _Kept(functools.partial(open_blocks, source), max_bytes)
        super().__init__([source], self._items, form=source.form, batched=source.batched)

    def _items(self, start: Start) -> Iterator[Block]:
        with open_reader(self._kept) as blocks:
            if not self.batched:
                yield from leave_out_rows(blocks, start.position)
                return
            leave_out(blocks, start.position)
            yield from blocks


# --- ``resumable``: a reader that can continue at the state of another process


def resumable(reader: ReaderLike) -> Resumable | BlockResumable:
    """Return a reader over the same samples whose passes can be interrupted and continued.

    Use this decorator last: its state counts the samples that were handed to the consumer, so
    samples that ``buffered`` and others have read ahead do not count. A continued pass starts at
    that count: every decorator tells the reader below it where to start, and arrays, IDX and
    RecordIO files and published data sets start there. Other readers, such as plain functions, are
    read again from their beginning, and must give the same samples again.

    The end of a pass is known only when no further sample comes: a state that was taken after the
    last sample, but before the end, first gives a pass without samples.

    Raises:
        ValueError: A reader below has an order that differs between passes of the same number.
    """
    _require_order(reader)
    source = block_reader(reader)
    return Resumable(reader) if source is None else BlockResumable(source)


@dataclass
class _PassPlace:
    """Number of a pass, and the number of samples handed over in it."""

    epoch: int
    position: int


class _Stateful:
    """The state of the latest pass."""

    _place: _PassPlace
    _next: Start

    def state_dict(self) -> dict[str, int]:
        """Return the number of the pass, and the number of its samples that were handed over.

        If the reader gives batches, batches are counted. Samples of a block count one by one if
        samples are read, and all together if blocks are read.
        """
        return {"epoch": self._place.epoch, "position": self._place.position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Make the next pass start at ``state``.

        Raises:
            ValueError: ``state`` is not a state.
        """
        given: object = state
        if not isinstance(given, Mapping) or given.keys() != {"epoch", "position"}:
            raise ValueError(f"expected a state of epoch and position, got {given!r:.200}")
        epoch = count("epoch", state["epoch"], at_least=0)
        self._begin_at(Start(epoch, count("position", state["position"], at_least=0)))

    def set_epoch(self, epoch: int) -> None:
        """Make ``epoch`` the number of the next pass, which starts at its beginning."""
        self._begin_at(Start(epoch))

    def _begin_at(self, start: Start) -> None:
        self._next = start
        self._place = _PassPlace(start.epoch or 0, start.position)

    def _begin(self, start: Start) -> tuple[Start, _PassPlace]:
        """Begin the next pass, or the one of the number in ``start``."""
        if start.epoch is None:
            start = self._next
        epoch = start.epoch or 0
        self._place = place = _PassPlace(epoch, start.position)
        # A pass that starts while another is going on gets the next number.
        self._next = Start(epoch + 1)
        return start, place


class Resumable(_Stateful, ReaderStage):
    """See ``resumable``; the state is that of the latest pass."""

    def __init__(self, reader: ReaderLike) -> None:
        super().__init__([reader], self._begin_samples, batched=getattr(reader, "batched", False))
        self._begin_at(Start(0))

    def _begin_samples(self, start: Start) -> Iterator[Sample]:
        return _counted_samples(self.upstream[0], *self._begin(start))


class BlockResumable(_Stateful, BlockStage):
    """See ``resumable``; the state is that of the latest pass."""

    def __init__(self, reader: BlockReader) -> None:
        super().__init__([reader], self._begin_blocks, form=reader.form, batched=reader.batched)
        self._begin_at(Start(0))
        self._reader = reader

    def start(self, start: Start) -> Iterator[Sample]:
        """Start a pass at a start."""
        return _counted_samples(self._reader, *self._begin(start))

    def _begin_blocks(self, start: Start) -> Iterator[Block]:
        return _counted_blocks(self._reader, *self._begin(start))


def _counted_samples(reader: ReaderLike, start: Start, place: _PassPlace) -> Iterator[Sample]:
    with open_samples(reader, start) as samples:
        for sample in samples:
            place.position += 1
            yield sample
    place.epoch, place.position = place.epoch + 1, 0


def _counted_blocks(reader: BlockReader, start: Start, place: _PassPlace) -> Iterator[Block]:
    with open_blocks(reader, start) as blocks:
        for block in blocks:
            place.position += 1 if reader.batched else num_rows(block)
            yield block
    place.epoch, place.position = place.epoch + 1, 0


def _require_order(reader: ReaderLike) -> None:
    # Readers of other rooms may say it, too.
    if (reason := getattr(reader, "unordered", None)) is not None:
        raise ValueError(f"expected readers that give the same order in the same pass: {reason}")
    for below in reader.upstream if isinstance(reader, ReaderStage) else ():
        _require_order(below)


# --- ``Fake``: repeats one sample, to measure everything except reading

_ROWS_PER_BLOCK: Final = 1024


class Fake:
    """Makes readers that repeat the first sample of another reader."""

    def __call__(self, reader: ReaderLike, data_num: int) -> Reader:
        """Return a reader that gives the first sample of ``reader`` ``data_num`` times.

        The sample is read once, when the first pass starts. For a reader of blocks the result has
        blocks.

        Raises:
            ValueError: ``data_num`` is negative.
            LoaderError: ``reader`` gives no sample; raised by a pass.
        """
        times = count("data_num", data_num, at_least=0)
        batched = getattr(reader, "batched", False)
        source = block_reader(reader)
        if source is None:
            first = _First(functools.partial(open_samples, reader))
            samples = functools.partial(_repeated, first, times)
            return ReaderStage([reader], samples, batched=batched)
        first = _First(functools.partial(open_blocks, source))
        repeat = _repeated if batched else _repeated_row
        blocks = functools.partial(repeat, first, times)
        return BlockStage([reader], blocks, form=source.form, batched=batched)


class _First:
    """The first item of a reader, read when it is needed first."""

    def __init__(self, open_pass: Callable[[Start], AbstractContextManager[Iterator[Any]]]) -> None:
        self._open_pass = open_pass
        self._kept: list[Any] = []

    def get(self, start: Start) -> Any:
        if not self._kept:
            # If passes have numbers, the first item of pass 0, so that all passes repeat the same
            # one.
            with self._open_pass(Start() if start.epoch is None else Start(0)) as items:
                self._kept.extend(itertools.islice(items, 1))
        if not self._kept:
            raise LoaderError("expected at least one sample to repeat, got none")
        return self._kept[0]


def _repeated(first: _First, times: int, start: Start) -> Iterator[Any]:
    if start.position > times:
        raise ended(start.position, times)
    yield from itertools.repeat(first.get(start), times - start.position)


def _repeated_row(first: _First, times: int, start: Start) -> Iterator[Block]:
    if start.position > times:
        raise ended(start.position, times)
    row = {name: column[:1] for name, column in first.get(start).items()}
    left = times - start.position
    block = {
        name: column.repeat(min(left, _ROWS_PER_BLOCK), axis=0) for name, column in row.items()
    }
    while left:
        length = min(left, num_rows(block))
        yield {name: column[:length] for name, column in block.items()}
        left -= length

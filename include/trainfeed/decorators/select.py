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
    block_reader,
    count,
    open_blocks,
    open_samples,
    set_epoch,
    start_blocks,
    start_samples,
)
from trainfeed.errors import LoaderError, MemoryLimitError
from trainfeed.readers import (
    Block,
    BlockReader,
    BlockSource,
    Reader,
    ReaderLike,
    Sample,
    SeekableReader,
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

        def blocks(epoch: int | None) -> Iterator[Block]:
            if limit:
                with open_blocks(source, epoch) as items:
                    yield from first(items, limit)

        return BlockStage([reader], blocks, form=source.form, batched=batched)

    def samples(epoch: int | None) -> Iterator[Sample]:
        if limit:
            with open_samples(reader, epoch) as items:
                yield from itertools.islice(items, limit)

    return ReaderStage([reader], samples, batched=batched)


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

        def blocks(epoch: int | None) -> Iterator[Block]:
            opened = open_blocks(source, epoch)
            shuffled = _shuffled if batched else _shuffled_rows
            return shuffled(opened, size, functools.partial(_order, seed, epochs.of(epoch)))

        return BlockStage([reader], blocks, form=source.form, batched=batched, epochs=epochs)

    def samples(epoch: int | None) -> Iterator[Sample]:
        order = functools.partial(_order, seed, epochs.of(epoch))
        return _shuffled(open_samples(reader, epoch), size, order)

    return ReaderStage([reader], samples, batched=batched, epochs=epochs)


# Function from the number of a window and its length to the order of its samples.
_Order = Callable[[int, int], NDArray[np.int64]]


def _shuffled(
    opened: AbstractContextManager[Iterator[Any]], size: int, order: _Order
) -> Iterator[Any]:
    with opened as items:
        if size < 2:
            yield from items
            return
        for number in itertools.count():
            window = list(itertools.islice(items, size))
            is_last = len(window) < size
            for i in order(number, len(window)).tolist():
                yield window[i]
            # Otherwise this window would stay in memory while the next one is filled.
            del window
            if is_last:
                return


def _shuffled_rows(
    opened: AbstractContextManager[Iterator[Block]], size: int, order: _Order
) -> Iterator[Block]:
    with opened as blocks:
        if size < 2:
            yield from blocks
            return
        for number, pieces in enumerate(rechunked(blocks, itertools.repeat(size))):
            window = concatenated(pieces)
            rows = order(number, num_rows(window))
            yield {name: column[rows] for name, column in window.items()}


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
        open_pass: Callable[[int | None], AbstractContextManager[Iterator[Any]]],
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
                with self._open_pass(0) as opened:
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

    def _items(self, _: int | None) -> Iterator[Sample]:
        return self._kept()


class _CachedBlocks(_Keeping, BlockStage):
    def __init__(self, source: BlockReader, max_bytes: int | None) -> None:
        self._kept = _Kept(functools.partial(open_blocks, source), max_bytes)
        super().__init__([source], self._items, form=source.form, batched=source.batched)

    def _items(self, _: int | None) -> Iterator[Block]:
        return self._kept()


# --- ``resumable``: a reader that can continue at the state of another process


def resumable(reader: ReaderLike) -> Resumable | BlockResumable:
    """Return a reader over the same samples whose passes can be interrupted and continued.

    Use this decorator last: its state counts the samples that were handed to the consumer, so
    samples that ``buffered`` and others have read ahead do not count. A continued pass reads the
    samples before that count again and drops them, so it costs as much as they did: reading,
    decoding and mapping. Only a reader that can skip samples by itself, such as ``recordio`` or a
    published data set, does not read them; that is, if it stands directly below this decorator.
    The reader must give the same samples again.

    The end of a pass is known only when no further sample comes: a state that was taken after the
    last sample, but before the end, first gives a pass without samples.

    Raises:
        ValueError: A reader below has an order that differs between passes of the same number.
    """
    _require_order(reader)
    source = block_reader(reader)
    return Resumable(reader) if source is None else BlockResumable(source)


@dataclass
class _PassPosition:
    """Number of a pass, and the number of samples handed over in it."""

    epoch: int = 0
    position: int = 0


class Resumable(ReaderStage):
    """See ``resumable``; the state is that of the latest pass."""

    def __init__(self, reader: ReaderLike) -> None:
        super().__init__([reader], self._samples_of, batched=getattr(reader, "batched", False))
        self._next = self._latest = _PassPosition()

    def state_dict(self) -> dict[str, int]:
        """Return the number of the pass, and the number of its samples that were handed over.

        If the reader gives batches, batches are counted. Samples of a block count one by one if
        samples are read, and all together if blocks are read.
        """
        return {"epoch": self._latest.epoch, "position": self._latest.position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Make the next pass start at ``state``.

        Raises:
            ValueError: ``state`` is not a state.
        """
        given: object = state
        if not isinstance(given, Mapping) or given.keys() != {"epoch", "position"}:
            raise ValueError(f"expected a state of epoch and position, got {given!r:.200}")
        epoch = count("epoch", state["epoch"], at_least=0)
        position = count("position", state["position"], at_least=0)
        self._next = self._latest = _PassPosition(epoch, position)

    def set_epoch(self, epoch: int) -> None:
        """Make ``epoch`` the number of the next pass, which starts at its beginning."""
        self._next = self._latest = _PassPosition(epoch)

    def _begin(self, epoch: int | None) -> _PassPosition:
        """Begin the next pass, or the one of a number."""
        self._latest = begun = self._next if epoch is None else _PassPosition(epoch)
        # A pass that starts while another is going on gets the next number.
        self._next = _PassPosition(begun.epoch + 1)
        return begun

    def _samples_of(self, epoch: int | None) -> Iterator[Sample]:
        begun = self._begin(epoch)
        return _counted(functools.partial(_rest, self.upstream[0]), begun)


class BlockResumable(Resumable, BlockStage):
    """See ``resumable``; the state is that of the latest pass."""

    def __init__(self, reader: BlockReader) -> None:
        BlockStage.__init__(
            self, [reader], self._blocks_of, form=reader.form, batched=reader.batched
        )
        self._next = self._latest = _PassPosition()
        self._reader = reader

    def start(self, epoch: int | None) -> Iterator[Sample]:
        """Start the pass of a number; see ``ReaderStage.start``."""
        return self._samples_of(epoch)

    def _blocks_of(self, epoch: int | None) -> Iterator[Block]:
        begun = self._begin(epoch)
        rest_of = functools.partial(_rest_of_blocks, self._reader)
        return _counted(rest_of, begun, num_of=None if self.batched else num_rows)


def _counted(
    rest_of: Callable[[int, int], Iterator[T]],
    begun: _PassPosition,
    *,
    num_of: Callable[[T], int] | None = None,
) -> Iterator[T]:
    with open_reader(lambda: rest_of(begun.epoch, begun.position)) as items:
        if num_of is None:
            for item in items:
                begun.position += 1
                yield item
        else:
            for item in items:
                begun.position += num_of(item)
                yield item
    begun.epoch, begun.position = begun.epoch + 1, 0


def _rest(reader: ReaderLike, epoch: int, position: int) -> Iterator[Sample]:
    if position and isinstance(reader, SeekableReader):
        set_epoch(reader, epoch)
        return reader.samples_from(position)
    samples = start_samples(reader, epoch)
    return _without_first(samples, position) if position else samples


def _rest_of_blocks(reader: BlockReader, epoch: int, position: int) -> Iterator[Block]:
    if position and isinstance(reader, BlockSource):
        set_epoch(reader, epoch)
        return reader.blocks_from(position)
    blocks = start_blocks(reader, epoch)
    if not position or reader.batched:
        return _without_first(blocks, position) if position else blocks
    return _without_first_rows(blocks, position)


def _without_first(items: Iterator[T], position: int) -> Iterator[T]:
    with open_reader(lambda: items):
        leave_out(items, position)
        yield from items


def _without_first_rows(blocks: Iterator[Block], position: int) -> Iterator[Block]:
    with open_reader(lambda: blocks):
        yield from leave_out_rows(blocks, position)


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

    def __init__(
        self, open_pass: Callable[[int | None], AbstractContextManager[Iterator[Any]]]
    ) -> None:
        self._open_pass = open_pass
        self._kept: list[Any] = []

    def get(self, epoch: int | None) -> Any:
        if not self._kept:
            # If passes have numbers, the first item of pass 0, so that all passes repeat the same
            # one.
            with self._open_pass(None if epoch is None else 0) as items:
                self._kept.extend(itertools.islice(items, 1))
        if not self._kept:
            raise LoaderError("expected at least one sample to repeat, got none")
        return self._kept[0]


def _repeated(first: _First, times: int, epoch: int | None) -> Iterator[Any]:
    yield from itertools.repeat(first.get(epoch), times)


def _repeated_row(first: _First, times: int, epoch: int | None) -> Iterator[Block]:
    row = {name: column[:1] for name, column in first.get(epoch).items()}
    left = times
    block = {
        name: column.repeat(min(left, _ROWS_PER_BLOCK), axis=0) for name, column in row.items()
    }
    while left:
        length = min(left, num_rows(block))
        yield {name: column[:length] for name, column in block.items()}
        left -= length

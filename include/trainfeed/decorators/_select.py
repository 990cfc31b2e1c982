"""``firstn``: fewer samples; ``shuffle``: the same samples in another order."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from trainfeed.decorators._reader_stage import (
    BlockStage,
    ReaderStage,
    block_reader,
    count,
    open_blocks,
    open_samples,
)
from trainfeed.decorators._rechunk import concatenated, rechunked
from trainfeed.decorators._start import Epochs, Start
from trainfeed.readers import (
    Block,
    Reader,
    ReaderLike,
    Sample,
    ended,
    leave_out,
    leave_out_rows,
    num_rows,
    open_reader,
)
from trainfeed.whole_numbers import whole_value

__all__ = ["firstn", "shuffle"]

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
    # one of them, and not a sample behind the limit.
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

"""Fewer samples, or the same ones in another order."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainfeed.decorators._rechunk import concatenated, rechunked
from trainfeed.decorators._stage import BlockStage, Epochs, Stage, block_reader, count
from trainfeed.readers import Block, Reader, ReaderLike, Sample, num_rows, open_reader

__all__ = ["firstn", "shuffle"]


def firstn(reader: ReaderLike, n: int) -> Reader:
    """Return a reader over the first ``n`` samples; no further one is drawn.

    Raises:
        ValueError: ``n`` is negative.
    """
    limit = count("n", n, at_least=0)
    source = block_reader(reader)
    if source is not None and not source.batched:

        def blocks() -> Iterator[Block]:
            left = limit
            if not left:
                return
            with open_reader(source.blocks) as iterator:
                for block in iterator:
                    if num_rows(block) >= left:
                        yield {name: column[:left] for name, column in block.items()}
                        return
                    left -= num_rows(block)
                    yield block

        return BlockStage([reader], blocks, form=source.form)

    def samples() -> Iterator[Sample]:
        if limit:
            with open_reader(reader) as iterator:
                yield from itertools.islice(iterator, limit)

    return Stage([reader], samples, batched=getattr(reader, "batched", False))


def shuffle(reader: ReaderLike, buf_size: int, *, seed: int = 0) -> Reader:
    """Return a reader over the same samples in windows of random order.

    Fills a window, gives its samples in random order, and goes on with the next one. The order is
    a function of ``seed``, the number of the pass and the position; blocks give the same one.

    Args:
        reader: What to shuffle.
        buf_size: Samples in a window; that many are held in memory. 0 and 1 change nothing.
        seed: Every pass has an order of its own, and the n-th pass of every reader with this seed
            has the same one.

    Raises:
        ValueError: ``buf_size`` is negative.
    """
    size = count("buf_size", buf_size, at_least=0)
    epochs = Epochs()
    batched = getattr(reader, "batched", False)
    if source := block_reader(reader):
        shuffled = _shuffled if batched else _shuffled_rows

        def blocks() -> Iterator[Block]:
            return shuffled(source.blocks, size, seed, epochs.take())

        return BlockStage([reader], blocks, form=source.form, batched=batched, epochs=epochs)

    def samples() -> Iterator[Sample]:
        return _shuffled(reader, size, seed, epochs.take())

    return Stage([reader], samples, batched=batched, epochs=epochs)


def _shuffled(read: ReaderLike, size: int, seed: int, epoch: int) -> Iterator[Any]:
    with open_reader(read) as iterator:
        if size < 2:
            yield from iterator
            return
        for number in itertools.count():
            window = list(itertools.islice(iterator, size))
            for i in _order(seed, epoch, number, len(window)).tolist():
                yield window[i]
            if len(window) < size:
                return


def _shuffled_rows(
    read: Callable[[], Iterator[Block]], size: int, seed: int, epoch: int
) -> Iterator[Block]:
    with open_reader(read) as iterator:
        if size < 2:
            yield from iterator
            return
        for number, pieces in enumerate(rechunked(iterator, itertools.repeat(size))):
            window = concatenated(pieces)
            order = _order(seed, epoch, number, num_rows(window))
            yield {name: column[order] for name, column in window.items()}


def _order(seed: int, epoch: int, window: int, length: int) -> NDArray[np.int64]:
    """Return a permutation of ``range(length)``, the same one in every version of numpy."""
    # The raw stream of a bit generator is fixed for ever, those of the distributions are not.
    mask = (1 << 64) - 1
    key = np.array([seed & mask, epoch & mask], np.uint64)
    counter = np.array([0, 0, 0, window & mask], np.uint64)
    drawn = np.random.Philox(key=key, counter=counter).random_raw(length)
    return np.argsort(drawn, kind="stable")

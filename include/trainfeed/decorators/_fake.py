"""``Fake``: repeats one sample, to measure everything except reading."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final

from trainfeed.decorators._reader_stage import (
    BlockStage,
    ReaderStage,
    block_reader,
    count,
    open_blocks,
    open_samples,
)
from trainfeed.decorators._start import Start
from trainfeed.errors import LoaderError
from trainfeed.readers import Block, Reader, ReaderLike, ended, num_rows

__all__ = ["Fake"]

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

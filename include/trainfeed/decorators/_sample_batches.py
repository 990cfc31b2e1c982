"""Samples grouped into batches."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any, cast

from trainfeed.decorators._reader_stage import (
    BlockStage,
    ReaderStage,
    block_reader,
    count,
    open_blocks,
    open_samples,
)
from trainfeed.decorators._rechunk import concatenated, rechunked
from trainfeed.decorators._sizes import BatchSizes
from trainfeed.decorators._start import Start
from trainfeed.errors import SampleShapeError
from trainfeed.readers import (
    Block,
    BlockReader,
    Reader,
    ReaderLike,
    RowForm,
    Sample,
    leave_out,
    num_rows,
    open_reader,
)

__all__ = ["as_batches", "batch", "check_batch", "is_batch", "strict_batches"]


def batch(
    reader: ReaderLike,
    batch_size: int | Callable[[int], int],
    drop_last: bool = False,
    *,
    strict: bool = False,
) -> Reader:
    """Return a reader of batches: lists of samples, or blocks that are one batch each.

    Args:
        reader: A reader of samples.
        batch_size: Samples per batch, or a function from the number of the batch in its pass, from
            0, to this number.
        drop_last: Whether a last batch with fewer samples is left out.
        strict: Whether samples that are not tuples are refused; see ``check_batch``.

    Raises:
        ValueError: ``batch_size`` is not a whole number of 1 or more, or the reader gives batches
            already.
        SampleShapeError: A batch breaks the tuple rule; raised by a pass.
    """
    if getattr(reader, "batched", False):
        raise ValueError(
            "expected a reader of samples, got one that gives batches already; drop one of the"
            " two calls of batch()"
        )
    sizes = BatchSizes(batch_size, drop_last=bool(drop_last))
    source = block_reader(reader)
    # The strict check is not needed for blocks whose samples are tuples by their form.
    if source is not None and not (strict and source.form is not RowForm.TUPLE):
        read_blocks = functools.partial(_batched_blocks, source, sizes)
        blocks = functools.partial(sizes.from_position, read_blocks)
        return BlockStage([reader], blocks, form=source.form, batched=True)
    read = functools.partial(_batched_samples, reader, sizes, strict)
    return ReaderStage([reader], functools.partial(sizes.from_position, read), batched=True)


def _batched_blocks(
    source: BlockReader, sizes: BatchSizes, start: Start, first: int
) -> Iterator[Block]:
    cuts, wanted = itertools.tee(sizes.of(first))
    with open_blocks(source, start) as iterator:
        for pieces, size in zip(rechunked(iterator, cuts), wanted, strict=False):
            if not sizes.drop_last or sum(map(num_rows, pieces)) == size:
                yield concatenated(pieces)


def _batched_samples(
    reader: ReaderLike, sizes: BatchSizes, strict: bool, start: Start, first: int
) -> Iterator[list[Sample]]:
    with open_samples(reader, start) as iterator:
        for number, size in enumerate(sizes.of(first), first):
            items = list(itertools.islice(iterator, size))
            if not items or (sizes.drop_last and len(items) < size):
                return
            if strict:
                check_batch(items, number)
            yield items


def as_batches(reader: ReaderLike, batch_size: int, *, drop_last: bool = False) -> Reader:
    """Return a reader of batches for a reader of samples or of batches; never batches twice.

    The attribute ``batched`` of the reader decides; for a plain function the first item of a pass
    decides, see ``is_batch``.

    Raises:
        ValueError: ``batch_size`` is not a whole number of 1 or more.
    """
    size = count("batch_size", batch_size, at_least=1)
    if getattr(reader, "batched", False):
        return cast("Reader", reader)

    def judged(start: Start) -> Iterator[list[Sample]]:
        with open_samples(reader, start) as iterator:
            for first in iterator:
                rest = itertools.chain([first], iterator)
                again = functools.partial(iter, rest)
                yield from rest if is_batch(first) else batch(again, size, drop_last)()

    def samples(start: Start) -> Iterator[list[Sample]]:
        with open_reader(lambda: judged(start.at(0))) as batches:
            leave_out(batches, start.position)
            yield from batches

    if isinstance(reader, ReaderStage | BlockReader):
        return batch(reader, size, drop_last)
    return ReaderStage([reader], samples, batched=True)


def is_batch(item: Any) -> bool:
    """Return whether an item of a reader is a batch: a list of tuples that is not empty."""
    return isinstance(item, list) and bool(item) and all(isinstance(row, tuple) for row in item)


def strict_batches(reader: ReaderLike) -> Reader:
    """Return a reader over the same batches, each checked by ``check_batch``.

    Raises:
        SampleShapeError: A batch is refused by ``check_batch``; raised by a pass.
    """
    source = block_reader(reader)
    if source is not None and source.batched and source.form is RowForm.TUPLE:
        return source

    def samples(start: Start) -> Iterator[list[Sample]]:
        with open_samples(reader, start) as iterator:
            for number, items in enumerate(iterator, start.position):
                check_batch(items, number)
                yield items

    return ReaderStage([reader], samples, batched=True)


def check_batch(items: Any, number: int = 0) -> None:
    """Raise unless a batch is a list of tuples with equal numbers of columns.

    The batch ``[[1, 1, 1], [2, 2, 2]]`` is refused because it is ambiguous: a sample may have
    three columns, or one column that is a list. Write ``[(1, 1, 1), …]`` for the former, and
    ``[([1, 1, 1],), …]`` for the latter.

    Args:
        items: The batch.
        number: Number of the batch in its pass, for the message.

    Raises:
        SampleShapeError: The batch is not such a list.
    """
    if not isinstance(items, list):
        raise SampleShapeError(
            f"batch {number}: expected a list of tuples, got {type(items).__name__}"
        )
    for i, sample in enumerate(items):
        if not isinstance(sample, tuple):
            raise SampleShapeError(
                f"batch {number}, sample {i}: expected a tuple, got"
                f" {type(sample).__name__}; write ({_short(sample)},) for a sample of one column,"
                " or a tuple of its columns"
            )
        if len(sample) != len(items[0]):
            raise SampleShapeError(
                f"batch {number}, sample {i}: expected {len(items[0])} columns like sample 0, got"
                f" {len(sample)}"
            )


def _short(sample: Any) -> str:
    text = repr(sample)
    return text if len(text) <= 40 else f"{text[:37]}..."

"""``chain``: readers in sequence; ``map_blocks``: a function of blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import TypeVar

from trainfeed.decorators._reader_stage import (
    BlockStage,
    ReaderStage,
    block_reader,
    block_readers,
    open_blocks,
    open_samples,
)
from trainfeed.decorators._start import Start, starts_of
from trainfeed.errors import ReaderEndedError
from trainfeed.readers import (
    Block,
    Reader,
    ReaderLike,
    RowForm,
    Sample,
    ended,
    leave_out_rows,
    num_rows,
    open_reader,
)

__all__ = ["chain", "map_blocks"]

R = TypeVar("R", bound=ReaderLike)
T = TypeVar("T")


def map_blocks(
    func: Callable[[Block], Block], reader: ReaderLike, *, form: RowForm | None = None
) -> Reader:
    """Return a reader over ``func(block)`` for the blocks of a reader.

    Args:
        func: Function from and to field → array of shape ``(n, *S)``. The number of rows may
            change, also to 0; therefore a pass that skips samples calls the function for them too.
            Its arguments may be views of shared memory, which it must not change.
        reader: A reader that gives blocks.
        form: Form of the new samples; None keeps the form.

    Raises:
        ValueError: The reader gives no blocks, or its blocks are batches.
    """
    source = block_reader(reader)
    if source is None or source.batched:
        raise ValueError("expected a reader that gives blocks, got one that does not")

    def mapped(start: Start) -> Iterator[Block]:
        with open_blocks(source, start) as iterator:
            for block in map(func, iterator):
                if num_rows(block):
                    yield block

    def blocks(start: Start) -> Iterator[Block]:
        with open_reader(lambda: mapped(start.at(0))) as iterator:
            yield from leave_out_rows(iterator, start.position)

    return BlockStage([reader], blocks, form=form or source.form)


def chain(*readers: ReaderLike) -> Reader:
    """Return a reader over all samples of the first reader, then of the second, and so on.

    A reader is called when the one before it has ended. The result has blocks if all readers have
    them.
    """
    sources = block_readers(readers)
    if sources:

        def blocks(start: Start) -> Iterator[Block]:
            return _one_after_another(open_blocks, sources, start)

        return BlockStage(readers, blocks, form=sources[0].form, batched=sources[0].batched)

    def samples(start: Start) -> Iterator[Sample]:
        return _one_after_another(open_samples, readers, start)

    batched = bool(readers) and all(getattr(reader, "batched", False) for reader in readers)
    return ReaderStage(readers, samples, batched=batched)


def _one_after_another(
    open_pass: Callable[[R, Start], AbstractContextManager[Iterator[T]]],
    readers: Sequence[R],
    start: Start,
) -> Iterator[T]:
    left = start.position
    for reader, own in starts_of(readers, start):
        with ExitStack() as stack:
            try:
                iterator = stack.enter_context(open_pass(reader, own.at(left)))
            except ReaderEndedError as error:
                # The reader has fewer samples than are to be skipped: skip it, and the rest in the
                # readers behind it.
                left -= error.num_samples
                continue
            left = 0
            yield from iterator
    if left:
        raise ended(start.position, start.position - left)

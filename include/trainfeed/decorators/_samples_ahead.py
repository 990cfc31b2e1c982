"""``buffered``: reads samples ahead in a thread."""

from __future__ import annotations

from collections.abc import Iterator

from trainfeed.decorators._reader_stage import (
    BlockStage,
    ReaderStage,
    block_reader,
    count,
    start_blocks,
    start_samples,
)
from trainfeed.decorators._start import Start
from trainfeed.processes import iter_ahead
from trainfeed.readers import Block, Reader, ReaderLike, Sample, num_rows

__all__ = ["buffered"]


def buffered(reader: ReaderLike, size: int) -> Reader:
    """Return a reader over the same samples; every pass has a thread that reads ahead.

    Reading overlaps with the work of the consumer, as far as one of them releases the interpreter
    lock. The thread ends with the pass, for whatever reason that ends. Errors of the reader are
    raised in the consumer, after all samples before them.

    Args:
        reader: The reader.
        size: Largest number of samples ahead; 0 reads none ahead. For blocks it counts rows, and a
            block is read as long as there is room for one row.

    Raises:
        ValueError: ``size`` is negative.
    """
    bound = count("size", size, at_least=0)
    batched = getattr(reader, "batched", False)
    if source := block_reader(reader):

        def blocks(start: Start) -> Iterator[Block]:
            if not bound:
                return start_blocks(source, start)
            units_of = None if batched else num_rows
            return iter_ahead(lambda: start_blocks(source, start), bound, units_of=units_of)

        return BlockStage([reader], blocks, form=source.form, batched=batched)

    def samples(start: Start) -> Iterator[Sample]:
        if not bound:
            return start_samples(reader, start)
        return iter_ahead(lambda: start_samples(reader, start), bound)

    return ReaderStage([reader], samples, batched=batched)

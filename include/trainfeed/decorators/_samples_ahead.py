"""``buffered``: samples that are ready before they are asked for."""

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
    """Return a reader over the same samples, read ahead by a thread of each pass.

    Overlaps reading with what the consumer does, as far as one of them releases the interpreter.
    The thread ends with the pass, however that ends. What the reader raises is raised in the
    consumer, after all samples that came before.

    Args:
        reader: What to read ahead.
        size: At most so many samples ahead; 0 reads ahead none. Over blocks it counts their rows,
            and a block is drawn as long as there is room for one row.

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

"""``multiprocess_reader``: a process for every reader."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Final

from trainfeed.decorators._stage import (
    BlockStage,
    Epochs,
    Stage,
    block_readers,
    count,
    set_epoch,
)
from trainfeed.decorators._stream import iter_in_processes
from trainfeed.readers import Block, BlockReader, Reader, ReaderLike, Sample

__all__ = ["multiprocess_reader"]

# Of each process, where the readers give blocks.
_BLOCKS_AHEAD: Final = 2


def multiprocess_reader(
    readers: Sequence[ReaderLike],
    use_pipe: bool = True,  # noqa: ARG001
    queue_size: int = 1000,
) -> Reader:
    """Return a reader over the samples of all readers, each read by a process of its own.

    Samples of one reader keep their order, those of several mix as they come. Tuples, arrays, None
    and whatever else can be pickled arrive as they were; arrays of 32 KiB or more travel in shared
    memory. Processes are forked when the first sample is asked for, and end with the pass.

    Args:
        readers: At least one.
        use_pipe: Of no effect: the original's two ways differ by their faults only.
        queue_size: At most so many samples are ahead of the consumer, and one for every process.

    Raises:
        ValueError: There is no reader, or ``queue_size`` is below 1.
        WorkerDiedError: A process was killed or has exited; raised by a pass, after all samples
            that the process had sent.
    """
    if not isinstance(readers, list | tuple) or not readers:
        raise ValueError(f"expected a list of at least one reader, got {readers!r}")
    size = max(1, count("queue_size", queue_size, at_least=1) // len(readers))
    epochs = Epochs()
    if sources := block_readers(readers):

        def blocks() -> Iterator[Block]:
            epoch = epochs.take()
            reads = [functools.partial(_read_blocks, source, epoch) for source in sources]
            return iter_in_processes(reads, _BLOCKS_AHEAD, epoch=epoch)

        first = sources[0]
        return BlockStage(readers, blocks, form=first.form, batched=first.batched, epochs=epochs)

    def samples() -> Iterator[Sample]:
        epoch = epochs.take()
        reads = [functools.partial(_read_epoch, reader, epoch) for reader in readers]
        return iter_in_processes(reads, size, epoch=epoch)

    batched = all(getattr(reader, "batched", False) for reader in readers)
    return Stage(readers, samples, batched=batched, epochs=epochs)


def _read_epoch(reader: ReaderLike, epoch: int) -> Iterator[Sample]:
    # The child's copy of the reader has not seen the passes before this one.
    set_epoch(reader, epoch)
    return iter(reader())


def _read_blocks(reader: BlockReader, epoch: int) -> Iterator[Block]:
    set_epoch(reader, epoch)
    return reader.blocks()

"""``multiprocess_reader``: a process for every reader."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from trainfeed.decorators._reader_stage import (
    BlockStage,
    ReaderStage,
    before_fork,
    block_readers,
    count,
    start_blocks,
    start_samples,
)
from trainfeed.decorators._start import Epochs, Start, starts_of
from trainfeed.processes import iter_in_processes
from trainfeed.readers import Block, Reader, ReaderLike, Sample

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
        queue_size: At most so many samples are ahead of the consumer, and one for every process;
            0 sets no bound. True and False count as 1 and 0, because code for the original also
            writes the last two arguments in the other order.

    Raises:
        ValueError: There is no reader, or ``queue_size`` is below 0.
        WorkerDiedError: A process was killed or has exited; raised by a pass, after all samples
            that the process had sent.
    """
    if not isinstance(readers, list | tuple) or not readers:
        raise ValueError(f"expected a list of at least one reader, got {readers!r}")
    ahead = int(queue_size) if isinstance(queue_size, bool) else queue_size
    ahead = count("queue_size", ahead, at_least=0) or sys.maxsize
    size = max(1, ahead // len(readers))
    epochs = Epochs()
    stage = _of_blocks(readers, epochs) or _of_samples(readers, size, epochs)
    if len(readers) > 1:
        stage.unordered = "multiprocess_reader() of several readers gives samples as they come"
    return stage


def _of_blocks(readers: Sequence[ReaderLike], epochs: Epochs) -> ReaderStage | None:
    sources = block_readers(readers)
    if not sources:
        return None

    def blocks(start: Start) -> Iterator[Block]:
        # A child's copy of a reader has not seen the passes before this one.
        own = Start(epochs.of(start), start.position)
        reads = [functools.partial(start_blocks, *each) for each in starts_of(sources, own)]
        prepare = functools.partial(before_fork, sources)
        return iter_in_processes(reads, _BLOCKS_AHEAD, epoch=own.epoch or 0, prepare=prepare)

    first = sources[0]
    return BlockStage(readers, blocks, form=first.form, batched=first.batched, epochs=epochs)


def _of_samples(readers: Sequence[ReaderLike], size: int, epochs: Epochs) -> ReaderStage:
    def samples(start: Start) -> Iterator[Sample]:
        own = Start(epochs.of(start), start.position)
        reads = [functools.partial(start_samples, *each) for each in starts_of(readers, own)]
        prepare = functools.partial(before_fork, readers)
        return iter_in_processes(reads, size, epoch=own.epoch or 0, prepare=prepare)

    batched = all(getattr(reader, "batched", False) for reader in readers)
    return ReaderStage(readers, samples, batched=batched, epochs=epochs)

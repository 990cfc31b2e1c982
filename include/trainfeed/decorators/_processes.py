"""``multiprocess_reader``: one process per reader."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

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

T = TypeVar("T")

# Number of blocks that each process reads ahead.
_BLOCKS_AHEAD: Final = 2


def multiprocess_reader(
    readers: Sequence[ReaderLike],
    use_pipe: bool = True,  # noqa: ARG001
    queue_size: int = 1000,
) -> Reader:
    """Return a reader over the samples of all readers, each read by a process of its own.

    Samples of one reader keep their order; samples of several readers are mixed in the order of
    arrival. Every value that can be pickled arrives unchanged; arrays of 32 KiB or more are passed
    in shared memory. Processes are forked when the first sample is requested, and end with the
    pass.

    Args:
        readers: At least one reader.
        use_pipe: Ignored; the original library has two implementations, which differ only in their
            faults.
        queue_size: Largest number of samples ahead of the consumer, besides one per process; 0
            sets no limit. True and False count as 1 and 0, because code for the original also
            passes the last two arguments in the other order.

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
        # The number of the pass is computed here: a process gets a new copy of the reader, which
        # has not counted the passes before.
        own = Start(epochs.of(start), start.position)
        reads = [functools.partial(start_blocks, *each) for each in starts_of(sources, own)]
        prepare = functools.partial(before_fork, sources)
        return _started(reads, _BLOCKS_AHEAD, own, prepare)

    first = sources[0]
    return BlockStage(readers, blocks, form=first.form, batched=first.batched, epochs=epochs)


def _of_samples(readers: Sequence[ReaderLike], size: int, epochs: Epochs) -> ReaderStage:
    def samples(start: Start) -> Iterator[Sample]:
        own = Start(epochs.of(start), start.position)
        reads = [functools.partial(start_samples, *each) for each in starts_of(readers, own)]
        prepare = functools.partial(before_fork, readers)
        return _started(reads, size, own, prepare)

    batched = all(getattr(reader, "batched", False) for reader in readers)
    return ReaderStage(readers, samples, batched=batched, epochs=epochs)


def _started(
    reads: Sequence[Callable[[], Iterator[T]]],
    size: int,
    own: Start,
    prepare: Callable[[], None],
) -> Iterator[T]:
    epoch = own.epoch or 0
    return iter_in_processes(reads, size, epoch=epoch, prepare=prepare, hands_over=True)

"""What every decorator returns: a reader that knows which readers it is made of."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from trainfeed.decorators._start import Epochs, Start, times_of
from trainfeed.readers import (
    Block,
    BlockReader,
    BlockSource,
    ReaderLike,
    RowForm,
    Sample,
    SeekableReader,
    leave_out,
    leave_out_rows,
    open_reader,
    rows,
)
from trainfeed.whole_numbers import whole_value

__all__ = [
    "BlockStage",
    "ReaderStage",
    "before_fork",
    "block_reader",
    "block_readers",
    "count",
    "open_blocks",
    "open_samples",
    "set_epoch",
    "start_blocks",
    "start_samples",
]

T = TypeVar("T")

_ENDED: Final = object()


class ReaderStage:
    """A reader over what a function yields, made of other readers.

    Args:
        upstream: The readers that it is made of.
        samples: Called with where the pass begins; every call starts one.
        batched: Its samples are batches.
        epochs: Counts its passes, if they differ.

    Attributes:
        upstream: As above.
        batched: As above.
        unordered: Why two passes of one number may give samples in different orders; None if they
            do not.
    """

    unordered: str | None = None

    def __init__(
        self,
        upstream: Sequence[ReaderLike],
        samples: Callable[[Start], Iterator[Sample]],
        *,
        batched: bool = False,
        epochs: Epochs | None = None,
    ) -> None:
        self.upstream: Final = tuple(upstream)
        self.batched = batched
        self._epochs: Final = epochs
        self._samples: Final = samples

    def __call__(self) -> Iterator[Sample]:
        """Start a pass over the samples."""
        return self.start(Start())

    def start(self, start: Start) -> Iterator[Sample]:
        """Start a pass at a place.

        Raises:
            ReaderEndedError: There are fewer samples than are to be left out; raised by the pass.
        """
        return self._samples(start)

    def set_epoch(self, epoch: int) -> None:
        """Make the next pass that of ``epoch``, here and in every reader this one is made of."""
        if self._epochs is not None:
            self._epochs.restart(epoch)
        times = times_of(self.upstream)
        for reader in self.upstream:
            set_epoch(reader, epoch * times[id(reader)])

    def before_fork(self) -> None:
        """Do what a fork would otherwise do again in every process, here and in every reader."""
        before_fork(self.upstream)


class BlockStage(ReaderStage):
    """A stage that works on blocks; samples are taken out of them at the end.

    Args:
        upstream: The readers that it is made of.
        blocks: Called with where the pass begins; every call starts one.
        form: What a sample of a block looks like.
        batched: Every block is one batch.
        epochs: Counts its passes, if they differ.
    """

    def __init__(
        self,
        upstream: Sequence[ReaderLike],
        blocks: Callable[[Start], Iterator[Block]],
        *,
        form: RowForm,
        batched: bool = False,
        epochs: Epochs | None = None,
    ) -> None:
        super().__init__(upstream, self._iter_samples, batched=batched, epochs=epochs)
        self.form = form
        self._blocks: Final = blocks

    def blocks(self) -> Iterator[Block]:
        """Start a pass over the same samples as blocks."""
        return self.start_blocks(Start())

    def start_blocks(self, start: Start) -> Iterator[Block]:
        """Start a pass at a place, as blocks; see ``start``."""
        return self._blocks(start)

    def _iter_samples(self, start: Start) -> Iterator[Sample]:
        # A pass is counted when it is asked for, not when its first sample is.
        return self._rows(self._blocks(start))

    def _rows(self, blocks: Iterator[Block]) -> Iterator[Sample]:
        with open_reader(lambda: blocks):
            for block in blocks:
                if self.batched:
                    yield list(rows(block, self.form))
                else:
                    yield from rows(block, self.form)


def set_epoch(reader: ReaderLike, epoch: int) -> None:
    """Make the next pass of a reader that of ``epoch``; plain functions know no epochs."""
    forward = getattr(reader, "set_epoch", None)
    if forward is not None:
        forward(epoch)


def before_fork(readers: Iterable[ReaderLike]) -> None:
    """Let readers do what forks should share; plain functions know no forks."""
    for reader in readers:
        if isinstance(reader, ReaderStage):
            reader.before_fork()


def start_samples(reader: ReaderLike, start: Start) -> Iterator[Sample]:
    """Start a pass over samples at a place; what cannot begin there is read and dropped."""
    if isinstance(reader, ReaderStage):
        return reader.start(start)
    if start.epoch is not None:
        set_epoch(reader, start.epoch)
    if not start.position:
        return iter(reader())
    if isinstance(reader, SeekableReader):
        return reader.samples_from(start.position)
    return _read_anew(reader, start.position)


def start_blocks(reader: BlockReader, start: Start) -> Iterator[Block]:
    """Start a pass over blocks at a place; what cannot begin there is read and dropped."""
    if isinstance(reader, BlockStage):
        return reader.start_blocks(start)
    if start.epoch is not None:
        set_epoch(reader, start.epoch)
    if not start.position:
        return reader.blocks()
    if isinstance(reader, BlockSource):
        return reader.blocks_from(start.position)
    return _read_blocks_anew(reader, start.position)


@contextmanager
def open_samples(reader: ReaderLike, start: Start) -> Iterator[Iterator[Sample]]:
    """Start a pass at a place, and end it with the block.

    Raises:
        ReaderEndedError: The place is beyond the end.
    """
    with open_reader(lambda: start_samples(reader, start)) as samples:
        yield _begun(samples, start)


@contextmanager
def open_blocks(reader: BlockReader, start: Start) -> Iterator[Iterator[Block]]:
    """Start a pass over blocks at a place; see ``open_samples``."""
    with open_reader(lambda: start_blocks(reader, start)) as blocks:
        yield _begun(blocks, start)


def block_reader(reader: ReaderLike) -> BlockReader | None:
    """Return the reader if it gives blocks."""
    return reader if isinstance(reader, BlockReader) else None


def block_readers(readers: Sequence[ReaderLike]) -> list[BlockReader] | None:
    """Return the readers if all of them give blocks of one kind."""
    found = [reader for reader in readers if isinstance(reader, BlockReader)]
    kinds = {(reader.form, reader.batched) for reader in found}
    return found if len(found) == len(readers) and len(kinds) == 1 else None


def count(name: str, value: Any, *, at_least: int) -> int:
    """Return ``value`` as an integer.

    Raises:
        ValueError: It is not whole, or below ``at_least``.
    """
    # A float that is whole is what a division gives; 2.7 and "3" are mistakes.
    is_quotient = isinstance(value, float) and value.is_integer()
    return whole_value(name, int(value) if is_quotient else value, at_least)


def _begun(items: Iterator[T], start: Start) -> Iterator[T]:
    """Return the items with the first one drawn, so that an end before the place is told here."""
    if not start.position:
        return items
    first = next(items, _ENDED)
    return iter(()) if first is _ENDED else itertools.chain([first], items)  # type: ignore[list-item]


def _read_anew(reader: ReaderLike, position: int) -> Iterator[Sample]:
    with open_reader(reader) as samples:
        leave_out(samples, position)
        yield from samples


def _read_blocks_anew(reader: BlockReader, position: int) -> Iterator[Block]:
    with open_reader(reader.blocks) as blocks:
        if not reader.batched:
            yield from leave_out_rows(blocks, position)
            return
        leave_out(blocks, position)
        yield from blocks

"""The result of every decorator: a reader that knows the readers below it and its start."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeVar

from trainfeed.core.whole_numbers import whole_value
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

# --- The start of a pass: its number, and the number of samples that it skips

R = TypeVar("R", bound=ReaderLike)


class Start(NamedTuple):
    """The start of a pass.

    Attributes:
        epoch: Number of the pass; None lets every reader take its next number.
        position: Number of samples to skip; of batches, if the reader gives batches.
    """

    epoch: int | None = None
    position: int = 0

    def at(self, position: int) -> Start:
        """Return the start of the same pass at another position."""
        return Start(self.epoch, position)


class Epochs:
    """The numbers of passes, from 0."""

    def __init__(self) -> None:
        self.restart(0)

    def restart(self, epoch: int) -> None:
        """Set the number of the next pass."""
        self._numbers = itertools.count(epoch)

    def of(self, start: Start) -> int:
        """Return the number of a pass that starts now; threads may start passes at once."""
        return next(self._numbers) if start.epoch is None else start.epoch


def times_of(readers: Iterable[ReaderLike]) -> Counter[int]:
    """Return how often each reader occurs, by ``id``."""
    return Counter(map(id, readers))


def starts_of(readers: Sequence[R], start: Start) -> Iterator[tuple[R, Start]]:
    """Yield each reader with the start of its own pass.

    A reader that occurs n times makes n passes in each pass over all readers, so the numbers of
    its passes are n times those of the whole, plus 0 to n - 1.
    """
    times, seen = times_of(readers), Counter[int]()
    for reader in readers:
        key = id(reader)
        epoch = None if start.epoch is None else start.epoch * times[key] + seen[key]
        seen[key] += 1
        yield reader, Start(epoch, start.position)


# --- The result of every decorator: a reader that knows the readers below it

T = TypeVar("T")

_ENDED: Final = object()


class ReaderStage:
    """A reader that is made of other readers.

    Args:
        upstream: The readers below this one.
        samples: Called with the start of a pass; yields its samples.
        batched: Whether samples are batches.
        epochs: Counter of passes, if passes differ from each other.

    Attributes:
        upstream: As above.
        batched: As above.
        unordered: Reason why two passes of the same number may have different orders; None if they
            have the same order.
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
        """Start a pass at a start.

        Raises:
            ReaderEndedError: There are fewer samples than are to be skipped; raised by the pass.
        """
        return self._samples(start)

    def set_epoch(self, epoch: int) -> None:
        """Make ``epoch`` the number of the next pass, here and in all readers below."""
        if self._epochs is not None:
            self._epochs.restart(epoch)
        times = times_of(self.upstream)
        for reader in self.upstream:
            # A reader that occurs several times below is read so often per pass: its own passes
            # are counted likewise.
            set_epoch(reader, epoch * times[id(reader)])

    def before_fork(self) -> None:
        """Do the work that forked processes should share, here and in all readers below."""
        before_fork(self.upstream)


class BlockStage(ReaderStage):
    """A stage that works on blocks; samples are taken from the finished blocks.

    Args:
        upstream: The readers below this one.
        blocks: Called with the start of a pass; yields its blocks.
        form: Form of a sample of a block.
        batched: Whether every block is one batch.
        epochs: Counter of passes, if passes differ from each other.
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
        """Start a pass over blocks at a start; see ``start``."""
        return self._blocks(start)

    def _iter_samples(self, start: Start) -> Iterator[Sample]:
        # Not a generator itself: the pass is counted now, not when its first sample is requested.
        return self._rows(self._blocks(start))

    def _rows(self, blocks: Iterator[Block]) -> Iterator[Sample]:
        with open_reader(lambda: blocks):
            for block in blocks:
                if self.batched:
                    yield list(rows(block, self.form))
                else:
                    yield from rows(block, self.form)


def set_epoch(reader: ReaderLike, epoch: int) -> None:
    """Set the number of a reader's next pass; plain functions have no such number."""
    forward = getattr(reader, "set_epoch", None)
    if forward is not None:
        forward(epoch)


def before_fork(readers: Iterable[ReaderLike]) -> None:
    """Call ``before_fork`` of all readers that have it."""
    for reader in readers:
        if isinstance(reader, ReaderStage):
            reader.before_fork()


def start_samples(reader: ReaderLike, start: Start) -> Iterator[Sample]:
    """Start a pass over samples; a reader that cannot skip samples reads and drops them."""
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
    """Start a pass over blocks; a reader that cannot skip samples reads and drops them."""
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
    """Start a pass, and end it with the context.

    Raises:
        ReaderEndedError: The start is after the last sample.
    """
    with open_reader(lambda: start_samples(reader, start)) as samples:
        yield _begun(samples, start)


@contextmanager
def open_blocks(reader: BlockReader, start: Start) -> Iterator[Iterator[Block]]:
    """Start a pass over blocks; see ``open_samples``."""
    with open_reader(lambda: start_blocks(reader, start)) as blocks:
        yield _begun(blocks, start)


def block_reader(reader: ReaderLike) -> BlockReader | None:
    """Return the reader if it gives blocks, otherwise None."""
    return reader if isinstance(reader, BlockReader) else None


def block_readers(readers: Sequence[ReaderLike]) -> list[BlockReader] | None:
    """Return the readers if all of them give blocks of the same form, otherwise None."""
    found = [reader for reader in readers if isinstance(reader, BlockReader)]
    kinds = {(reader.form, reader.batched) for reader in found}
    return found if len(found) == len(readers) and len(kinds) == 1 else None


def count(name: str, value: Any, *, at_least: int) -> int:
    """Return ``value`` as an integer.

    Raises:
        ValueError: ``value`` is not a whole number, or is below ``at_least``.
    """
    # Whole floats are accepted as results of divisions; 2.7 and "3" are mistakes.
    is_quotient = isinstance(value, float) and value.is_integer()
    return whole_value(name, int(value) if is_quotient else value, at_least)


def _begun(items: Iterator[T], start: Start) -> Iterator[T]:
    """Return the items with the first one read, so that too early an end raises here."""
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

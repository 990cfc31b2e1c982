"""The result of every decorator: a reader that knows those below it, and passes with numbers."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, TypeVar

from trainfeed.core.whole_numbers import whole_value
from trainfeed.readers import (
    Block,
    BlockReader,
    ReaderLike,
    RowForm,
    Sample,
    open_reader,
    rows,
)

# --- The numbers of passes

R = TypeVar("R", bound=ReaderLike)


class Epochs:
    """The numbers of passes, from 0."""

    def __init__(self) -> None:
        self.restart(0)

    def restart(self, epoch: int) -> None:
        """Set the number of the next pass."""
        self._numbers = itertools.count(epoch)

    def of(self, epoch: int | None) -> int:
        """Return the number of a pass that starts now; threads may start passes at once."""
        return next(self._numbers) if epoch is None else epoch


def times_of(readers: Iterable[ReaderLike]) -> Counter[int]:
    """Return how often each reader occurs, by ``id``."""
    return Counter(map(id, readers))


def epochs_of(readers: Sequence[R], epoch: int | None) -> Iterator[tuple[R, int | None]]:
    """Yield each reader with the number of its own pass.

    A reader that occurs n times makes n passes in each pass over all readers, so the numbers of
    its passes are n times those of the whole, plus 0 to n - 1.
    """
    times, seen = times_of(readers), Counter[int]()
    for reader in readers:
        key = id(reader)
        yield reader, None if epoch is None else epoch * times[key] + seen[key]
        seen[key] += 1


# --- The result of every decorator: a reader that knows the readers below it


class ReaderStage:
    """A reader that is made of other readers.

    Args:
        upstream: The readers below this one.
        samples: Called with the number of a pass, or None for the next one; yields its samples.
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
        samples: Callable[[int | None], Iterator[Sample]],
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
        return self.start(None)

    def start(self, epoch: int | None) -> Iterator[Sample]:
        """Start the pass of a number; None lets every reader take its next number."""
        return self._samples(epoch)

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
        blocks: Called with the number of a pass, or None for the next one; yields its blocks.
        form: Form of a sample of a block.
        batched: Whether every block is one batch.
        epochs: Counter of passes, if passes differ from each other.
    """

    def __init__(
        self,
        upstream: Sequence[ReaderLike],
        blocks: Callable[[int | None], Iterator[Block]],
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
        return self.start_blocks(None)

    def start_blocks(self, epoch: int | None) -> Iterator[Block]:
        """Start a pass over blocks; see ``start``."""
        return self._blocks(epoch)

    def _iter_samples(self, epoch: int | None) -> Iterator[Sample]:
        # Not a generator itself: the pass is counted now, not when its first sample is requested.
        return self._rows(self._blocks(epoch))

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


def start_samples(reader: ReaderLike, epoch: int | None) -> Iterator[Sample]:
    """Start the pass of a number over samples; None lets the reader take its next number."""
    if isinstance(reader, ReaderStage):
        return reader.start(epoch)
    if epoch is not None:
        set_epoch(reader, epoch)
    return iter(reader())


def start_blocks(reader: BlockReader, epoch: int | None) -> Iterator[Block]:
    """Start a pass over blocks; see ``start_samples``."""
    if isinstance(reader, BlockStage):
        return reader.start_blocks(epoch)
    if epoch is not None:
        set_epoch(reader, epoch)
    return reader.blocks()


def open_samples(reader: ReaderLike, epoch: int | None) -> AbstractContextManager[Iterator[Sample]]:
    """Start a pass, and end it with the context; see ``start_samples``."""
    return open_reader(lambda: start_samples(reader, epoch))


def open_blocks(reader: BlockReader, epoch: int | None) -> AbstractContextManager[Iterator[Block]]:
    """Start a pass over blocks, and end it with the context; see ``start_samples``."""
    return open_reader(lambda: start_blocks(reader, epoch))


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

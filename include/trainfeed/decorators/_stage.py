"""What every decorator returns: a reader that knows which readers it is made of."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from trainfeed.readers import (
    Block,
    BlockReader,
    ReaderLike,
    RowForm,
    Sample,
    open_reader,
    rows,
)

__all__ = ["BlockStage", "Epochs", "Stage", "block_reader", "block_readers", "count", "set_epoch"]


class Epochs:
    """The number of the next pass."""

    def __init__(self) -> None:
        self.next = 0

    def take(self) -> int:
        """Return the number of a pass that starts now."""
        epoch = self.next
        self.next += 1
        return epoch


class Stage:
    """A reader over what a function yields, made of other readers.

    Args:
        upstream: The readers that it is made of.
        samples: Called without arguments; every call starts a pass.
        batched: Its samples are batches.
        epochs: Counts its passes, if they differ.
    """

    def __init__(
        self,
        upstream: Sequence[ReaderLike],
        samples: Callable[[], Iterator[Sample]],
        *,
        batched: bool = False,
        epochs: Epochs | None = None,
    ) -> None:
        self.batched = batched
        self._epochs: Final = epochs
        self._upstream: Final = tuple(upstream)
        self._samples: Final = samples

    def __call__(self) -> Iterator[Sample]:
        """Start a pass over the samples."""
        return self._samples()

    def set_epoch(self, epoch: int) -> None:
        """Make the next pass that of ``epoch``, here and in every reader this one is made of."""
        if self._epochs is not None:
            self._epochs.next = epoch
        for reader in self._upstream:
            set_epoch(reader, epoch)


class BlockStage(Stage):
    """A stage that works on blocks; samples are taken out of them at the end.

    Args:
        upstream: The readers that it is made of.
        blocks: Called without arguments; every call starts a pass.
        form: What a sample of a block looks like.
        batched: Every block is one batch.
        epochs: Counts its passes, if they differ.
    """

    def __init__(
        self,
        upstream: Sequence[ReaderLike],
        blocks: Callable[[], Iterator[Block]],
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
        return self._blocks()

    def _iter_samples(self) -> Iterator[Sample]:
        # A pass is counted when it is asked for, not when its first sample is.
        return self._rows(self.blocks())

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
    try:
        # A float that is whole is what a division gives; 2.7 and "3" are mistakes.
        number = int(value) if isinstance(value, float) and value == int(value) else value
        number = operator.index(number)
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or isinstance(value, bool) or number < at_least:
        raise ValueError(f"expected {name} to be an integer of {at_least} or more, got {value!r}")
    return int(number)

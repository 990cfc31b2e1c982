"""``resumable``: a reader that can go on where another process has left it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from trainfeed.decorators._stage import BlockStage, Epochs, Stage, block_reader, count, set_epoch
from trainfeed.readers import Block, BlockReader, ReaderLike, Sample, num_rows, open_reader

__all__ = ["BlockResumable", "Resumable", "resumable"]


def resumable(reader: ReaderLike) -> Resumable | BlockResumable:
    """Return a reader over the same samples whose passes can be left and gone on with.

    Put it last: its state counts what was handed to the consumer, so it does not matter how far
    ``buffered`` and others have read ahead. All readers below must give the same order in the
    same pass: mapping by several workers needs ``order=True``, and ``multiprocess_reader`` of
    several readers does not qualify. Going on reads again what was handed over, whole blocks at a
    time where the reader gives blocks; the loader of data sets does not even do that.
    """
    source = block_reader(reader)
    return Resumable(reader) if source is None else BlockResumable(source)


class _Progress:
    """Which pass goes on, and how much of it was handed over."""

    def __init__(self) -> None:
        self.epochs = Epochs()
        self._epoch = 0
        self._position = 0
        self._start = 0

    def begin(self, reader: ReaderLike) -> int:
        """Begin a pass; return how many samples to leave out, after a state was loaded."""
        self._epoch = self.epochs.take()
        self._position, self._start = self._start, 0
        set_epoch(reader, self._epoch)
        return self._position

    def add(self, num_samples: int) -> None:
        self._position += num_samples

    def end(self) -> None:
        """Note the end of a pass: the state is that of the next one, before its first sample."""
        self._epoch, self._position = self._epoch + 1, 0

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self._epoch, "position": self._position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state.keys() != {"epoch", "position"}:
            raise ValueError(f"expected a state of epoch and position, got {sorted(state)}")
        self._epoch = self.epochs.next = count("epoch", state["epoch"], at_least=0)
        self._position = self._start = count("position", state["position"], at_least=0)


class Resumable(Stage):
    """See ``resumable``; one pass at a time."""

    def __init__(self, reader: ReaderLike) -> None:
        self._progress = _Progress()
        batched = getattr(reader, "batched", False)
        super().__init__([reader], self._start, batched=batched, epochs=self._progress.epochs)
        self._reader = reader

    def state_dict(self) -> dict[str, int]:
        """Return the number of the pass, and how many of its samples were handed over."""
        return self._progress.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Make the next pass begin where ``state`` was taken.

        Raises:
            ValueError: It is no state.
        """
        self._progress.load_state_dict(state)

    def _start(self) -> Iterator[Sample]:
        return self._iter(self._progress.begin(self._reader))

    def _iter(self, position: int) -> Iterator[Sample]:
        with open_reader(self._reader) as iterator:
            for sample in itertools.islice(iterator, position, None):
                self._progress.add(1)
                yield sample
        self._progress.end()


class BlockResumable(BlockStage):
    """See ``resumable``; one pass at a time. Positions count samples, or batches."""

    def __init__(self, reader: BlockReader) -> None:
        self._progress = _Progress()
        super().__init__(
            [reader],
            self._start,
            form=reader.form,
            batched=reader.batched,
            epochs=self._progress.epochs,
        )
        self._reader = reader

    def state_dict(self) -> dict[str, int]:
        """Return the number of the pass, and how many of its samples were handed over.

        Samples of a block count when they are handed over one by one, or all with their block.
        """
        return self._progress.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Make the next pass begin where ``state`` was taken.

        Raises:
            ValueError: It is no state.
        """
        self._progress.load_state_dict(state)

    def __call__(self) -> Iterator[Sample]:
        """Start a pass over the samples."""
        return self._samples_from(self._progress.begin(self._reader))

    def _start(self) -> Iterator[Block]:
        return self._blocks_from(self._progress.begin(self._reader))

    def _blocks_from(self, position: int) -> Iterator[Block]:
        with open_reader(lambda: self._rest(position)) as blocks:
            for block in blocks:
                self._progress.add(1 if self.batched else num_rows(block))
                yield block
        self._progress.end()

    def _samples_from(self, position: int) -> Iterator[Sample]:
        with open_reader(lambda: self._rows(self._rest(position))) as samples:
            for sample in samples:
                self._progress.add(1)
                yield sample
        self._progress.end()

    def _rest(self, position: int) -> Iterator[Block]:
        left = position
        with open_reader(self._reader.blocks) as blocks:
            for block in blocks:
                size = 1 if self.batched else num_rows(block)
                if left >= size:
                    left -= size
                    continue
                yield {name: column[left:] for name, column in block.items()} if left else block
                left = 0

"""``resumable``: a reader that can go on where another process has left it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainfeed.decorators._reader_stage import (
    BlockStage,
    ReaderStage,
    block_reader,
    count,
    open_blocks,
    open_samples,
)
from trainfeed.decorators._start import Start
from trainfeed.readers import Block, BlockReader, ReaderLike, Sample, num_rows

__all__ = ["BlockResumable", "Resumable", "resumable"]


def resumable(reader: ReaderLike) -> Resumable | BlockResumable:
    """Return a reader over the same samples whose passes can be left and gone on with.

    Put it last: its state counts what was handed to the consumer, so it does not matter how far
    ``buffered`` and others have read ahead. A pass that goes on begins at that count: every
    decorator asks the reader before it for the place that this needs, and arrays, IDX and RecordIO
    files and published data sets go there. What cannot, such as a function, is read again from its
    beginning, and must give the same samples again.

    That a pass is over, only its end tells: a state of the moment before, after the last sample,
    gives a pass without samples first.

    Raises:
        ValueError: A reader below gives samples as they come: its order is never the same.
    """
    _require_order(reader)
    source = block_reader(reader)
    return Resumable(reader) if source is None else BlockResumable(source)


@dataclass
class _PassPlace:
    """How far a pass is."""

    epoch: int
    position: int


class _Stateful:
    """The state of the pass that was begun last."""

    _place: _PassPlace
    _next: Start

    def state_dict(self) -> dict[str, int]:
        """Return the number of the pass, and how many of its samples were handed over.

        Batches count where the reader gives batches. Samples of a block count when they are handed
        over one by one, or all with their block.
        """
        return {"epoch": self._place.epoch, "position": self._place.position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Make the next pass begin where ``state`` was taken.

        Raises:
            ValueError: It is no state.
        """
        given: object = state
        if not isinstance(given, Mapping) or given.keys() != {"epoch", "position"}:
            raise ValueError(f"expected a state of epoch and position, got {given!r:.200}")
        epoch = count("epoch", state["epoch"], at_least=0)
        self._begin_at(Start(epoch, count("position", state["position"], at_least=0)))

    def set_epoch(self, epoch: int) -> None:
        """Make the next pass that of ``epoch``, from its beginning."""
        self._begin_at(Start(epoch))

    def _begin_at(self, start: Start) -> None:
        self._next = start
        self._place = _PassPlace(start.epoch or 0, start.position)

    def _begin(self, start: Start) -> tuple[Start, _PassPlace]:
        """Begin a pass: the next one, unless a number is asked for."""
        if start.epoch is None:
            start = self._next
        epoch = start.epoch or 0
        self._place = place = _PassPlace(epoch, start.position)
        self._next = Start(epoch + 1)
        return start, place


class Resumable(_Stateful, ReaderStage):
    """See ``resumable``; the state is that of the pass that was begun last."""

    def __init__(self, reader: ReaderLike) -> None:
        super().__init__([reader], self._begin_samples, batched=getattr(reader, "batched", False))
        self._begin_at(Start(0))

    def _begin_samples(self, start: Start) -> Iterator[Sample]:
        return _counted_samples(self.upstream[0], *self._begin(start))


class BlockResumable(_Stateful, BlockStage):
    """See ``resumable``; the state is that of the pass that was begun last."""

    def __init__(self, reader: BlockReader) -> None:
        super().__init__([reader], self._begin_blocks, form=reader.form, batched=reader.batched)
        self._begin_at(Start(0))
        self._reader = reader

    def start(self, start: Start) -> Iterator[Sample]:
        """Start a pass at a place."""
        return _counted_samples(self._reader, *self._begin(start))

    def _begin_blocks(self, start: Start) -> Iterator[Block]:
        return _counted_blocks(self._reader, *self._begin(start))


def _counted_samples(reader: ReaderLike, start: Start, place: _PassPlace) -> Iterator[Sample]:
    with open_samples(reader, start) as samples:
        for sample in samples:
            place.position += 1
            yield sample
    place.epoch, place.position = place.epoch + 1, 0


def _counted_blocks(reader: BlockReader, start: Start, place: _PassPlace) -> Iterator[Block]:
    with open_blocks(reader, start) as blocks:
        for block in blocks:
            place.position += 1 if reader.batched else num_rows(block)
            yield block
    place.epoch, place.position = place.epoch + 1, 0


def _require_order(reader: ReaderLike) -> None:
    if not isinstance(reader, ReaderStage):
        return
    if reader.unordered is not None:
        raise ValueError(
            f"expected readers that give the same order in the same pass: {reader.unordered}"
        )
    for below in reader.upstream:
        _require_order(below)

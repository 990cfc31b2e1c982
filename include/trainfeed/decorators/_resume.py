"""``resumable``: a reader that can continue at the state of another process."""

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
    """Return a reader over the same samples whose passes can be interrupted and continued.

    Use this decorator last: its state counts the samples that were handed to the consumer, so
    samples that ``buffered`` and others have read ahead do not count. A continued pass starts at
    that count: every decorator tells the reader below it where to start, and arrays, IDX and
    RecordIO files and published data sets start there. Other readers, such as plain functions, are
    read again from their beginning, and must give the same samples again.

    The end of a pass is known only when no further sample comes: a state that was taken after the
    last sample, but before the end, first gives a pass without samples.

    Raises:
        ValueError: A reader below has an order that differs between passes of the same number.
    """
    _require_order(reader)
    source = block_reader(reader)
    return Resumable(reader) if source is None else BlockResumable(source)


@dataclass
class _PassPlace:
    """Number of a pass, and the number of samples handed over in it."""

    epoch: int
    position: int


class _Stateful:
    """The state of the latest pass."""

    _place: _PassPlace
    _next: Start

    def state_dict(self) -> dict[str, int]:
        """Return the number of the pass, and the number of its samples that were handed over.

        If the reader gives batches, batches are counted. Samples of a block count one by one if
        samples are read, and all together if blocks are read.
        """
        return {"epoch": self._place.epoch, "position": self._place.position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Make the next pass start at ``state``.

        Raises:
            ValueError: ``state`` is not a state.
        """
        given: object = state
        if not isinstance(given, Mapping) or given.keys() != {"epoch", "position"}:
            raise ValueError(f"expected a state of epoch and position, got {given!r:.200}")
        epoch = count("epoch", state["epoch"], at_least=0)
        self._begin_at(Start(epoch, count("position", state["position"], at_least=0)))

    def set_epoch(self, epoch: int) -> None:
        """Make ``epoch`` the number of the next pass, which starts at its beginning."""
        self._begin_at(Start(epoch))

    def _begin_at(self, start: Start) -> None:
        self._next = start
        self._place = _PassPlace(start.epoch or 0, start.position)

    def _begin(self, start: Start) -> tuple[Start, _PassPlace]:
        """Begin the next pass, or the one of the number in ``start``."""
        if start.epoch is None:
            start = self._next
        epoch = start.epoch or 0
        self._place = place = _PassPlace(epoch, start.position)
        # A pass that starts while another is going on gets the next number.
        self._next = Start(epoch + 1)
        return start, place


class Resumable(_Stateful, ReaderStage):
    """See ``resumable``; the state is that of the latest pass."""

    def __init__(self, reader: ReaderLike) -> None:
        super().__init__([reader], self._begin_samples, batched=getattr(reader, "batched", False))
        self._begin_at(Start(0))

    def _begin_samples(self, start: Start) -> Iterator[Sample]:
        return _counted_samples(self.upstream[0], *self._begin(start))


class BlockResumable(_Stateful, BlockStage):
    """See ``resumable``; the state is that of the latest pass."""

    def __init__(self, reader: BlockReader) -> None:
        super().__init__([reader], self._begin_blocks, form=reader.form, batched=reader.batched)
        self._begin_at(Start(0))
        self._reader = reader

    def start(self, start: Start) -> Iterator[Sample]:
        """Start a pass at a start."""
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
    # Readers of other rooms may say it, too.
    if (reason := getattr(reader, "unordered", None)) is not None:
        raise ValueError(f"expected readers that give the same order in the same pass: {reason}")
    for below in reader.upstream if isinstance(reader, ReaderStage) else ():
        _require_order(below)

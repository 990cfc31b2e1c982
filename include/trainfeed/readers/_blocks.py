"""Readers over functions that yield blocks or samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trainfeed.readers._position import leave_out_rows
from trainfeed.readers._types import Block, RowForm, Sample, open_reader, rows

__all__ = ["BlockSource", "SampleSource"]


class BlockSource:
    """A reader over the blocks that a function yields.

    Args:
        blocks: Called without arguments; every call starts a pass and yields blocks of one row or
            more.
        form: Form of a sample of a block.
        blocks_from: Called with a number of samples to skip; yields blocks of the rest, and raises
            ``ReaderEndedError`` if there are fewer. None means that skipped blocks are read and
            dropped.

    Attributes:
        form: As above.
        batched: False.
    """

    batched = False

    def __init__(
        self,
        blocks: Callable[[], Iterator[Block]],
        *,
        form: RowForm = RowForm.MAPPING,
        blocks_from: Callable[[int], Iterator[Block]] | None = None,
    ) -> None:
        self.form = form
        self._blocks = blocks
        self._blocks_from = blocks_from

    def __call__(self) -> Iterator[Sample]:
        """Start a pass over the samples."""
        return self.samples_from(0)

    def samples_from(self, position: int) -> Iterator[Sample]:
        """Start a pass that skips the first ``position`` samples.

        Raises:
            ReaderEndedError: There are fewer samples; raised by the pass.
        """
        with open_reader(lambda: self.blocks_from(position)) as blocks:
            for block in blocks:
                yield from rows(block, self.form)

    def blocks(self) -> Iterator[Block]:
        """Start a pass over the same samples as blocks."""
        return self._blocks()

    def blocks_from(self, position: int) -> Iterator[Block]:
        """Start a pass over blocks that skips the first ``position`` samples."""
        if not position:
            return self.blocks()
        if self._blocks_from is None:
            return self._read_anew(position)
        return self._blocks_from(position)

    def _read_anew(self, position: int) -> Iterator[Block]:
        with open_reader(self.blocks) as blocks:
            yield from leave_out_rows(blocks, position)


class SampleSource:
    """A reader over the samples that a function yields from a position on.

    Args:
        samples_from: Called with a number of samples to skip; yields the rest, and raises
            ``ReaderEndedError`` if there are fewer.
    """

    def __init__(self, samples_from: Callable[[int], Iterator[Sample]]) -> None:
        self._samples_from = samples_from

    def __call__(self) -> Iterator[Sample]:
        """Start a pass over the samples."""
        return self._samples_from(0)

    def samples_from(self, position: int) -> Iterator[Sample]:
        """Start a pass that skips the first ``position`` samples."""
        return self._samples_from(position)

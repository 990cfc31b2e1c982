"""Readers over sources that give blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trainfeed.readers._types import Block, RowForm, Sample, open_reader, rows

__all__ = ["BlockSource"]


class BlockSource:
    """A reader over what a function yields as blocks.

    Args:
        blocks: Called without arguments; every call starts a pass and yields blocks of one row or
            more.
        form: What a sample of a block looks like.

    Attributes:
        form: As above.
        batched: False.
    """

    batched = False

    def __init__(
        self, blocks: Callable[[], Iterator[Block]], *, form: RowForm = RowForm.MAPPING
    ) -> None:
        self.form = form
        self._blocks = blocks

    def __call__(self) -> Iterator[Sample]:
        """Start a pass over the samples."""
        with open_reader(self.blocks) as blocks:
            for block in blocks:
                yield from rows(block, self.form)

    def blocks(self) -> Iterator[Block]:
        """Start a pass over the same samples as blocks."""
        return self._blocks()

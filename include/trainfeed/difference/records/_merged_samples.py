"""Two versions in step: the samples of both in ranges of keys, each range whole on both sides.

Every split is a stream that ascends by key. The smallest last key of all blocks in memory bounds
the next range: below it no stream has further samples. So memory holds a block for each split.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np

from trainfeed.difference.records._sample_rows import SampleRows, joined_rows
from trainfeed.errors import FormatError

__all__ = ["Blocks", "merged"]

# Blocks of one stream in ascending order of keys.
Blocks: TypeAlias = Iterator[SampleRows]


def merged(
    first: Sequence[Blocks], second: Sequence[Blocks]
) -> Iterator[tuple[SampleRows, SampleRows]]:
    """Yield the samples of two versions in ranges of keys; a range may be empty on one side.

    Args:
        first: The streams of one version.
        second: Those of the other.

    Raises:
        FormatError: A stream does not ascend.
    """
    sides = [[_Stream(blocks) for blocks in side] for side in (first, second)]
    streams = [stream for side in sides for stream in side]
    while open_streams := [stream for stream in streams if not stream.is_ended]:
        bound = min(stream.last for stream in open_streams)
        yield _taken(sides, bound)
        for stream in open_streams:
            if stream.last == bound:
                stream.extend()
    yield _taken(sides, None)


def _taken(sides: list[list[_Stream]], bound: np.uint64 | None) -> tuple[SampleRows, SampleRows]:
    first, second = (joined_rows([stream.below(bound) for stream in side]) for side in sides)
    return first, second


class _Stream:
    """One stream: the rows in memory, and the blocks that follow."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._rows = joined_rows([])
        self.is_ended = False
        self.last = np.uint64(0)
        self.extend()

    def extend(self) -> None:
        """Read the next block that has rows, or notice the end."""
        while (block := next(self._blocks, None)) is not None and not len(block):
            pass
        if block is None:
            self.is_ended = True
            return
        if block.keys[0] < self.last or (block.keys[1:] < block.keys[:-1]).any():
            raise FormatError(
                "expected samples in the order of their keys, got others; compare the versions:"
                " trainfeed verify"
            )
        self._rows = joined_rows([self._rows, block])
        self.last = block.keys[-1]

    def below(self, bound: np.uint64 | None) -> SampleRows:
        """Take the rows with keys below a bound, or all."""
        count = len(self._rows) if bound is None else int(self._rows.keys.searchsorted(bound))
        taken, self._rows = self._rows.taken(slice(count)), self._rows.taken(slice(count, None))
        return taken

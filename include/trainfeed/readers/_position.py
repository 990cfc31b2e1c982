"""Passes that begin behind the first sample."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Protocol, runtime_checkable

from trainfeed.errors import ReaderEndedError
from trainfeed.readers._types import Block, Sample, num_rows

__all__ = ["SeekableReader", "ended", "leave_out", "leave_out_rows"]


@runtime_checkable
class SeekableReader(Protocol):
    """A reader that need not read what comes before a position."""

    def __call__(self) -> Iterator[Sample]:
        """Start a pass over the samples."""

    def samples_from(self, position: int) -> Iterator[Sample]:
        """Start a pass that leaves out the first ``position`` samples.

        Raises:
            ReaderEndedError: There are fewer; raised by the pass.
        """


def ended(position: int, num_samples: int) -> ReaderEndedError:
    """Return the error of a reader that has fewer samples than are to be left out."""
    return ReaderEndedError(
        f"expected at least {position} samples as in the state, the reader has {num_samples}; this"
        " is not the reader that the state was taken from",
        num_samples=num_samples,
    )


def leave_out(samples: Iterator[Sample], position: int, *, first: int = 0) -> None:
    """Draw the samples before a position.

    Args:
        samples: What to draw from.
        position: So many samples are left out.
        first: So many of them were left out already.

    Raises:
        ReaderEndedError: There are fewer.
    """
    first += sum(1 for _ in islice(samples, position - first))
    if first < position:
        raise ended(position, first)


def leave_out_rows(blocks: Iterator[Block], position: int, *, first: int = 0) -> Iterator[Block]:
    """Yield the rows of blocks from a position on.

    Args:
        blocks: What to read.
        position: So many samples are left out.
        first: So many of them were left out already.

    Raises:
        ReaderEndedError: There are fewer.
    """
    for block in blocks:
        skipped = min(position - first, num_rows(block))
        first += skipped
        if skipped < num_rows(block):
            yield {name: column[skipped:] for name, column in block.items()} if skipped else block
    if first < position:
        raise ended(position, first)

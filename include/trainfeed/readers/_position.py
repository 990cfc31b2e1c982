"""Passes that skip samples at the beginning."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Protocol, runtime_checkable

from trainfeed.errors import ReaderEndedError
from trainfeed.readers._types import Block, Sample, num_rows

__all__ = ["SeekableReader", "ended", "leave_out", "leave_out_rows"]


@runtime_checkable
class SeekableReader(Protocol):
    """A reader that can skip samples without reading them."""

    def __call__(self) -> Iterator[Sample]:
        """Start a pass over the samples."""

    def samples_from(self, position: int) -> Iterator[Sample]:
        """Start a pass that skips the first ``position`` samples.

        Raises:
            ReaderEndedError: There are fewer samples; raised by the pass.
        """


def ended(position: int, num_samples: int) -> ReaderEndedError:
    """Return the error of a reader that has fewer samples than are to be skipped."""
    return ReaderEndedError(
        f"expected at least {position} samples as in the state, the reader has {num_samples}; this"
        " is not the reader that the state was taken from",
        num_samples=num_samples,
    )


def leave_out(samples: Iterator[Sample], position: int, *, first: int = 0) -> None:
    """Read and drop the samples before a position.

    Args:
        samples: The samples.
        position: Number of samples to skip.
        first: Number of samples that were skipped before.

    Raises:
        ReaderEndedError: There are fewer samples than ``position``.
    """
    first += sum(1 for _ in islice(samples, position - first))
    if first < position:
        raise ended(position, first)


def leave_out_rows(blocks: Iterator[Block], position: int, *, first: int = 0) -> Iterator[Block]:
    """Yield the rows of blocks from a position on.

    Args:
        blocks: The blocks.
        position: Number of samples to skip.
        first: Number of samples that were skipped before.

    Raises:
        ReaderEndedError: There are fewer samples than ``position``.
    """
    for block in blocks:
        skipped = min(position - first, num_rows(block))
        first += skipped
        if skipped < num_rows(block):
            yield {name: column[skipped:] for name, column in block.items()} if skipped else block
    if first < position:
        raise ended(position, first)

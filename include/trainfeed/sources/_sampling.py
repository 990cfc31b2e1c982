"""Finds the boundary of a time in a range that is too long to read every record.

The search reads sample blocks at growing distance, and some at even distance. Each block votes
before or after by the median of its stamps; the weight of its vote is the time that passes in the
part of the range up to the next block. Then the part between the neighbours of the best split is
searched in the same way, until it is short.

A block without evidence has no vote. If two votes have only such blocks between them, the search
continues behind the first vote and before the second, because records without evidence belong to
the record before them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.sources._choice import best_split
from trainfeed.sources._evidence import BLOCK, MINUTE_MS, Records, View

__all__ = ["exact_split", "has_evidence", "sampled_split"]

# Ranges with at most so many offsets are read completely: a whole range, a part between two blocks.
_MAX_RECORDS: Final = 20_000
_MAX_BETWEEN: Final = 2_000
_PER_DOUBLING: Final = 4
# Numbers of blocks at even distance. A quiet day behind a burst with many times its records must
# not fall between two blocks.
_AT_FIRST: Final = 64
_PER_LEVEL: Final = 24
_BLOCK_BYTES: Final = 1 << 20
# Up to so many records are read without a limit of bytes.
_FEW: Final = 16
_FEW_BYTES: Final = 1 << 30


@dataclass(frozen=True)
class _SampledBlock:
    """Some neighbouring records, with their vote.

    Attributes:
        start: First offset of the block.
        reached: Offset behind the block.
        records: Its records with evidence.
        is_after: Whether their median is at or after the time; None without evidence.
        pace_ms: Time that passes per offset, above 0.
    """

    start: int
    reached: int
    records: Records
    is_after: bool | None
    pace_ms: float


@dataclass(frozen=True)
class _SampleSearch:
    view: View
    at_ms: int

    def exact(self, start: int, end: int, most: int) -> tuple[int | None, bool]:
        """Return the best split of all records, and whether all could be read."""
        if end - start > most:
            return None, False
        limit = _FEW_BYTES if end - start <= _FEW else None
        found = self.view.read(start, end, most, limit)
        if found.reached < end:
            return None, False
        return best_split(self.view.believed(found), self.at_ms), True

    def between(self, places: list[int], end: int) -> int | None:
        """Return the best split of the range that begins at the first of ``places``."""
        blocks = list(self._blocks(places, end))
        left, right = self._neighbours(blocks, end)
        for part, stop in self._parts(blocks, left, right, end):
            found = self._closer(part, stop)
            if found is not None:
                return found
        return None if right == len(blocks) else self._first_after(blocks[right])

    def _blocks(self, places: list[int], end: int) -> Iterator[_SampledBlock]:
        reached = 0
        for place in places:
            start = max(place, reached)
            if start >= end:
                return
            found = self.view.read(start, end, BLOCK, _BLOCK_BYTES)
            reached = found.reached
            yield self._block(start, reached, self.view.believed(found))

    def _block(self, start: int, reached: int, records: Records) -> _SampledBlock:
        if not len(records):
            return _SampledBlock(start, reached, records, None, 0.0)
        ordered = np.sort(records.stamps)
        is_after = bool(_quantile(ordered, 0.5) >= self.at_ms)
        before = int(np.searchsorted(ordered, self.at_ms))
        side = ordered[before:] if is_after else ordered[:before]
        # Elapsed time as twice the middle half of the stamps, without outliers.
        elapsed = 2.0 * (_quantile(side, 0.75) - _quantile(side, 0.25))
        elapsed = min(max(elapsed, 1.0), float(MINUTE_MS * len(side)))
        return _SampledBlock(start, reached, records, is_after, elapsed / (reached - start))

    def _neighbours(self, blocks: list[_SampledBlock], end: int) -> tuple[int, int]:
        """Return the blocks left and right of the best split; -1 or ``len(blocks)`` if none."""
        voting = [index for index, block in enumerate(blocks) if block.is_after is not None]
        starts = [*(block.start for block in blocks), end]
        weights = np.array([blocks[i].pace_ms * (starts[i + 1] - starts[i]) for i in voting])
        after = np.array([blocks[i].is_after for i in voting], bool)
        # Element k of ``left`` and ``right``: weight of the wrong votes left and right of a split
        # before vote k.
        left = np.concatenate([[0.0], np.cumsum(weights * after)])
        right = np.concatenate([np.cumsum((weights * ~after)[::-1])[::-1], [0.0]])
        best = int(np.argmin(left + right))
        return (
            voting[best - 1] if best > 0 else -1,
            voting[best] if best < len(voting) else len(blocks),
        )

    @staticmethod
    def _parts(
        blocks: list[_SampledBlock], left: int, right: int, end: int
    ) -> Iterator[tuple[_SampledBlock, int]]:
        """Yield the blocks that the split may follow, each with the start of the next block."""
        starts = [*(block.start for block in blocks), end]
        for index in sorted({left, right - 1} - {-1}):
            yield blocks[index], starts[index + 1]

    def _closer(self, block: _SampledBlock, end: int) -> int | None:
        """Return the best split from a block on; None if all records up to ``end`` come before."""
        if block.reached >= end:
            return best_split(block.records, self.at_ms)
        found, is_known = self.exact(block.start, end, _MAX_BETWEEN)
        return found if is_known else self.between(_even(block.start, end, _PER_LEVEL), end)

    def _first_after(self, block: _SampledBlock) -> int:
        """Return the offset of the first record after the time, in a block that voted after."""
        split = best_split(block.records, self.at_ms)
        if split is not None:
            return split
        return int(block.records.offsets[np.argmax(block.records.stamps >= self.at_ms)])


def exact_split(view: View, start: int, end: int, at_ms: int) -> tuple[int | None, bool]:
    """Return the best split of all records of a range, if they are few enough to read.

    Args:
        view: The view of the partition.
        start: First offset.
        end: Offset behind the last.
        at_ms: The time in milliseconds since 1970.

    Returns:
        Offset of the first record after the time, None if all come before it; and whether all
        records were read.
    """
    return _SampleSearch(view, at_ms).exact(start, end, _MAX_RECORDS)


def sampled_split(view: View, start: int, end: int, at_ms: int) -> int | None:
    """Return the offset of the first record of ``[start, end)`` that comes after a time.

    Args:
        view: The view of the partition.
        start: First offset.
        end: Offset behind the last.
        at_ms: The time in milliseconds since 1970.

    Returns:
        The offset; None if all records come before the time.
    """
    return _SampleSearch(view, at_ms).between(_growing(start, end), end)


def has_evidence(view: View, start: int, end: int) -> bool:
    """Return whether a record of a range has evidence, of those read before or in some blocks."""
    for place in [start, *_growing(start, end)] if start < end else []:
        if len(view.seen().from_offset(start).before_offset(end)):
            return True
        view.read(place, end, BLOCK, _BLOCK_BYTES)
    return len(view.seen().from_offset(start).before_offset(end)) > 0


def _quantile(ordered: NDArray[np.int64], share: float) -> float:
    """Return what ``np.quantile`` does, without its 0.1 ms.

    Args:
        ordered: Ascending, below 2⁵¹, so that no step is rounded; at least one.
        share: A number of quarters.
    """
    place = share * (len(ordered) - 1)
    row = int(place)
    low, high = int(ordered[row]), int(ordered[min(row + 1, len(ordered) - 1)])
    return low + (high - low) * (place - row)


def _growing(start: int, end: int) -> list[int]:
    count = max(0, int(_PER_DOUBLING * np.log2(max(1.0, (end - start) / BLOCK)))) + 1
    # Distances from ``start`` grow by a factor of 2 with every ``_PER_DOUBLING`` blocks.
    steps = BLOCK * 2 ** (np.arange(count) / _PER_DOUBLING)
    return _places(start, [*(start + steps.astype(int)), *_even(start, end, _AT_FIRST)], end)


def _even(start: int, end: int, count: int) -> list[int]:
    return _places(start, [start + i * (end - start) // count for i in range(count)], end)


def _places(start: int, places: list[int], end: int) -> list[int]:
    """Return the starts of blocks in order, with one block at the start and one at the end."""
    return sorted({start, *(int(at) for at in places if at < end), max(start, end - BLOCK)})

"""Where a time lies in a range that is too long to look at every record.

Blocks of records at growing distance, and some at even distance, vote: each by the median of its
stamps and with the time that passes in the part of the range that it stands for. Then the part
between the neighbours of the best split is looked at in the same way, until it is short.

A block without evidence has no vote. Where nothing but such blocks lies between two votes, the
records behind the first vote are looked at, and those before the second: records without evidence
stay with what precedes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from trainfeed.sources._choice import best_split
from trainfeed.sources._evidence import BLOCK, MINUTE_MS, Records, View

__all__ = ["exact_split", "has_evidence", "sampled_split"]

# So many offsets are looked at one by one: of a whole range, and between two blocks.
_MAX_RECORDS: Final = 20_000
_MAX_BETWEEN: Final = 2_000
_PER_DOUBLING: Final = 4
# A quiet day behind a burst many times as long must not lie between two blocks.
_AT_FIRST: Final = 64
_PER_LEVEL: Final = 24
_BLOCK_BYTES: Final = 1 << 20
# So few records are read whatever their size.
_FEW: Final = 16
_FEW_BYTES: Final = 1 << 30


@dataclass(frozen=True)
class _SampledBlock:
    """Some neighbouring records, and what they say.

    Attributes:
        start: Where it begins.
        reached: Where it ends.
        records: Those of it that have evidence.
        is_after: Whether their median lies at or after the time; None without evidence.
        pace_ms: Time that passes per offset, at least a little.
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
        """Return the best split of all records, and whether they were few enough to look at."""
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
        is_after = bool(np.median(records.stamps) >= self.at_ms)
        side = records.stamps[(records.stamps >= self.at_ms) == is_after]
        # Twice the middle half: a record from another age says nothing of the pace.
        elapsed = 2.0 * float(np.subtract(*np.percentile(side, [75, 25])))
        elapsed = min(max(elapsed, 1.0), float(MINUTE_MS * len(side)))
        return _SampledBlock(start, reached, records, is_after, elapsed / (reached - start))

    def _neighbours(self, blocks: list[_SampledBlock], end: int) -> tuple[int, int]:
        """Return the votes left and right of the best split; -1 and the number where none is."""
        voting = [index for index, block in enumerate(blocks) if block.is_after is not None]
        starts = [*(block.start for block in blocks), end]
        weights = np.array([blocks[i].pace_ms * (starts[i + 1] - starts[i]) for i in voting])
        after = np.array([blocks[i].is_after for i in voting], bool)
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
        """Yield the blocks that the split may follow, each with where the next one begins."""
        starts = [*(block.start for block in blocks), end]
        for index in sorted({left, right - 1} - {-1}):
            yield blocks[index], starts[index + 1]

    def _closer(self, block: _SampledBlock, end: int) -> int | None:
        """Return the best split from a block on; None when all up to ``end`` comes before."""
        if block.reached >= end:
            return best_split(block.records, self.at_ms)
        found, is_known = self.exact(block.start, end, _MAX_BETWEEN)
        return found if is_known else self.between(_even(block.start, end, _PER_LEVEL), end)

    def _first_after(self, block: _SampledBlock) -> int:
        """Return the first record of a block, whose median is after the time, that is after it."""
        split = best_split(block.records, self.at_ms)
        if split is not None:
            return split
        return int(block.records.offsets[np.argmax(block.records.stamps >= self.at_ms)])


def exact_split(view: View, start: int, end: int, at_ms: int) -> tuple[int | None, bool]:
    """Return the best split of all records of a range, and whether they are few enough for that.

    Args:
        view: Looks at the partition.
        start: First offset.
        end: Offset behind the last.
        at_ms: The time in milliseconds since 1970.

    Returns:
        Offset of the first record that comes after the time, None when all come before it; and
        whether all were looked at.
    """
    return _SampleSearch(view, at_ms).exact(start, end, _MAX_RECORDS)


def sampled_split(view: View, start: int, end: int, at_ms: int) -> int | None:
    """Return the offset of the first record of ``[start, end)`` that comes after a time.

    Args:
        view: Looks at the partition.
        start: First offset.
        end: Offset behind the last.
        at_ms: The time in milliseconds since 1970.

    Returns:
        None when all records come before it.
    """
    return _SampleSearch(view, at_ms).between(_growing(start, end), end)


def has_evidence(view: View, start: int, end: int) -> bool:
    """Return whether a record of a range that was looked at has evidence; look at some if not."""
    for place in [start, *_growing(start, end)] if start < end else []:
        if len(view.seen().from_offset(start).before_offset(end)):
            return True
        view.read(place, end, BLOCK, _BLOCK_BYTES)
    return len(view.seen().from_offset(start).before_offset(end)) > 0


def _growing(start: int, end: int) -> list[int]:
    count = max(0, int(_PER_DOUBLING * np.log2(max(1.0, (end - start) / BLOCK)))) + 1
    steps = BLOCK * 2 ** (np.arange(count) / _PER_DOUBLING)
    return _places(start, [*(start + steps.astype(int)), *_even(start, end, _AT_FIRST)], end)


def _even(start: int, end: int, count: int) -> list[int]:
    return _places(start, [start + i * (end - start) // count for i in range(count)], end)


def _places(start: int, places: list[int], end: int) -> list[int]:
    """Return where blocks begin, in order: the range begins with one and ends with one."""
    return sorted({start, *(int(at) for at in places if at < end), max(start, end - BLOCK)})

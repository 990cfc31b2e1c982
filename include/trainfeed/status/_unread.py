"""Offsets that no interval has read, by the ranges of versions that follow each other in time.

Neighbouring intervals share their boundary, so the range of a partition begins where that of the
interval before ends. Two versions that were built from other boundaries, or from a topic with other
partitions, show it here, without a look at the topic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from trainfeed.status._facts import RecordedGap, VersionFacts

__all__ = ["unread_offsets"]


def unread_offsets(versions: Sequence[tuple[str, VersionFacts]]) -> dict[str, tuple[str, ...]]:
    """Return interval → what lies between it and the interval before, one line for each range.

    Args:
        versions: Interval and facts of every version, in order of time.
    """
    found = {}
    for (_, earlier), (name, later) in pairwise(versions):
        if earlier.end == later.start and (lines := tuple(_between(earlier, later))):
            found[name] = lines
    return found


def _between(earlier: VersionFacts, later: VersionFacts) -> Iterator[str]:
    before = {topic[:2]: topic for topic in earlier.topics}
    for name, identity, numbers, starts, _ in later.topics:
        if (name, identity) not in before:
            continue  # a topic that was added, or made again under its name
        _, _, old_numbers, _, old_ends = before[name, identity]
        if old_numbers == numbers and old_ends == starts:
            continue
        ends = dict(zip(old_numbers, old_ends, strict=True))
        for number, start in zip(numbers, starts, strict=True):
            if start != (end := ends.pop(number, 0)):
                yield from _lines(f"{name}/{number}", end, start, (*earlier.gaps, *later.gaps))
        for number, end in ends.items():
            yield f"{name}/{number} is not read from offset {end} on"


def _lines(source: str, end: int, start: int, gaps: Sequence[RecordedGap]) -> Iterator[str]:
    if start < end:
        yield f"{source} offsets [{start}, {end}) are in two intervals"
    # What is recorded as lost needs no line; the rest does.
    for lost, known in sorted((lost, known) for each, lost, known, _ in gaps if each == source):
        if end < min(lost, start):
            yield f"{source} offsets [{end}, {min(lost, start)}) are in no interval"
        end = max(end, known)
    if end < start:
        yield f"{source} offsets [{end}, {start}) are in no interval"

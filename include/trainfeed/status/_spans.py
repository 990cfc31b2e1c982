"""Versions on the time line: the spans that they cover, the holes, and where late records are."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final, TypeAlias

from trainfeed.status._dataset_status import IntervalStatus
from trainfeed.status._facts import VersionFacts

__all__ = ["Dated", "Spans", "holes", "late_since"]

# Interval and facts of a version; lists of them are in order of time.
Dated: TypeAlias = tuple[str, VersionFacts]

# Length of an interval's name → format of its time.
_FORMATS: Final = {10: "%Y-%m-%d", 13: "%Y-%m-%dT%H", 15: "%Y-%m-%dT%H%M"}


class Spans:
    """The spans that versions cover without a hole: a published day covers its hours.

    Args:
        versions: Every version, in order of time.
    """

    def __init__(self, versions: Sequence[Dated]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for _, facts in versions:
            if self._ends and facts.start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], facts.end)
            else:
                self._starts.append(facts.start)
                self._ends.append(facts.end)

    def holes(self) -> Iterator[tuple[int, int | None]]:
        """Yield the times without versions, ``[start, end)``; the last one has no end."""
        yield from zip([0, *self._ends], [*self._starts, None], strict=True)

    def cover(self, start: int, end: int) -> bool:
        """Return whether versions cover ``[start, end)``, in seconds since 1970."""
        number = bisect_right(self._starts, start) - 1
        return number >= 0 and end <= self._ends[number]


def holes(versions: Sequence[Dated]) -> Iterator[IntervalStatus]:
    """Yield the holes between versions: the only missing intervals that are known without a list.

    Args:
        versions: Every version, in order of time.
    """
    reason = "versions end and begin again here; without a schedule it is not known what should be"
    for (name, earlier), (_, later) in pairwise(versions):
        if earlier.end < later.start:
            unit = _FORMATS.get(len(name), "%Y-%m-%d")
            first = datetime.fromtimestamp(earlier.end, UTC).strftime(unit)
            last = datetime.fromtimestamp(later.start - 1, UTC).strftime(unit)
            hole = first if first == last else f"{first}/{last}"
            yield IntervalStatus(
                hole, "missing", earlier.end, later.start, None, reason, None, None
            )


def late_since(
    versions: Sequence[Dated], published: Mapping[str, int]
) -> dict[str, tuple[int, str]]:
    """Return interval → time since which late records of it are known, and where they are.

    A manifest counts the late records of its interval and has the earliest stamp: the interval
    with this stamp has late records for certain. Others may have some, too.

    Args:
        versions: Every version, in order of time.
        published: Interval → time of publication, seconds since 1970.
    """
    found: dict[str, tuple[int, str]] = {}
    starts = [facts.start for _, facts in versions]
    for name, facts in versions:
        if not facts.late:
            continue
        number = bisect_right(starts, facts.late_from // 1000) - 1
        if number < 0 or facts.late_from >= versions[number][1].end * 1000:
            continue  # the records are of an interval that is not published
        since = (published[name], name)
        owner = versions[number][0]
        found[owner] = min(since, found.get(owner, since))
    return found

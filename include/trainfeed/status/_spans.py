"""Versions on the time line: where late records are."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from trainfeed.status._facts import VersionFacts

__all__ = ["Dated", "late_since"]

# Interval and facts of a version; lists of them are in order of time.
Dated: TypeAlias = tuple[str, VersionFacts]


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
